#include "deploy/data/device_option.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "placement/cost/device_profiles.h"

namespace troupe::deploy {

placement::DeviceProfile device_of(const std::string& option) {
  if (!std::filesystem::exists(option)) return placement::find_device(option);
  std::ifstream file(option);
  return placement::parse_device(std::string(std::istreambuf_iterator<char>(file), {}), option);
}

}  // namespace troupe::deploy
