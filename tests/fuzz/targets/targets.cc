#include <algorithm>
#include <array>

#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {

std::span<const Target> all_targets() {
  static const std::array all{
      http_target,      http2_target,   grpc_target,    json_target,  completions_target, codec_target,
      frames_target,    pull_target,    redis_target,   etcd_target,  records_target,     logs_target,
      config_target,    cluster_target, weights_target, model_target, traces_target,      texts_target,
      sentences_target, scores_target,  keys_target,    torch_target, tables_target};
  return all;
}

const Target* find_target(std::string_view name) {
  const auto found = std::ranges::find(all_targets(), name, &Target::name);
  return found == all_targets().end() ? nullptr : &*found;
}

}  // namespace troupe::fuzz
