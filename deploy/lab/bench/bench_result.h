#pragma once
// What `troupe bench rank --json` writes and others read again: how it was asked, and what came of each run.
// Members that nobody here knows are left alone.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "deploy/lab/bench/bench_client.h"

namespace troupe::deploy {

struct BenchResult {
  // As asked. Files and folders as they were named, from wherever that was.
  std::string model, data, trace;
  std::vector<std::string> settings;  // name=value
  std::uint64_t requests_max = 0;     // 0: all
  std::uint32_t in_flight = 4;
  double speed = 0;  // open loop; 0: closed loop
  std::uint64_t pool_bytes = 0, item_bytes = 0, user_bytes = 0;
  std::vector<BenchRankRun> runs;
};

nlohmann::json to_json(const BenchResult& result);
// Throws ImportError.
BenchResult read_bench_result(const std::filesystem::path& file);

}  // namespace troupe::deploy
