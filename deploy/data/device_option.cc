// Parses the option --device: the name of a known device, or a profile's file that `troupe-lab bench
// calibrate` wrote.
#include "deploy/data/device_option.h"

#include <filesystem>

#include "placement/cost/device_profiles.h"
#include "runtime/config/whole_file.h"

namespace troupe::deploy {
namespace {

constexpr std::size_t file_bytes_max = 64 << 10;

}  // namespace

placement::DeviceProfile device_of(const std::string& option) {
  if (!std::filesystem::exists(option)) return placement::find_device(option);
  return placement::parse_device(read_whole_file(option, file_bytes_max, "a device profile"), option);
}

}  // namespace troupe::deploy
