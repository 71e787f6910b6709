#pragma once
// Writes and reads the JSON of `troupe-lab bench rank --json`: the options of the benchmark and the result of
// each run. Unknown members are ignored.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "deploy/lab/bench/bench_client.h"

namespace troupe::deploy {

struct BenchResult {
  // The benchmark's options. Paths are as given, relative to the folder in which it ran.
  std::string model, data, trace;
  std::vector<std::string> settings;  // name=value
  std::uint64_t requests_max = 0;     // 0 = all
  std::uint32_t in_flight = 4;
  double speed = 0;  // speed-up in an open loop; 0 = closed loop
  std::uint64_t pool_bytes = 0, item_bytes = 0, user_bytes = 0;
  std::vector<BenchRankRun> runs;
};

nlohmann::json to_json(const BenchResult& result);
// Throws ImportError.
BenchResult read_bench_result(const std::filesystem::path& file);

}  // namespace troupe::deploy
