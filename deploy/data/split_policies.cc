// Reads the file of split policies that `troupe-lab train` wrote; they decide how a pool is divided
// between its areas.
#include "deploy/data/split_policies.h"

#include "runtime/config/whole_file.h"

namespace troupe::deploy {
namespace {

constexpr std::size_t policies_bytes_max = 1 << 20;

}  // namespace

placement::TrainedPolicies read_split_policies(const std::string& path) {
  return placement::parse_policies(
      read_whole_file(path, policies_bytes_max, "policies that troupe-lab train wrote"), path);
}

}  // namespace troupe::deploy
