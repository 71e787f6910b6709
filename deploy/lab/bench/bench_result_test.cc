#include "deploy/lab/bench/bench_result.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "deploy/data/text_file.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

struct ResultFile : TestFolder {
  std::filesystem::path file() const { return path() / "r.json"; }
  BenchResult read(const std::string& text) const {
    write_output(file().string(), text);
    return read_bench_result(file());
  }
  std::string refusal(const std::string& text) const {
    try {
      read(text);
    } catch (const ImportError& error) {
      return std::string(error.what()).substr(file().string().size());
    }
    return "";
  }
};

}  // namespace

TEST_SUITE("bench result") {
  TEST_CASE("bench result: a written result is read back unchanged") {
    const ResultFile folder;
    BenchResult result{
        .model = "m", .data = "d", .trace = "t.jsonl", .settings = {"inference.cores=1"}, .requests_max = 7};
    result.speed = 2.5;
    result.pool_bytes = 1 << 30;
    BenchRankRun run;
    run.policy = "bat";
    run.requests = 40;
    run.tokens_computed = 123'456;
    run.item_blocks_hit = 99;
    run.p99_ms = 7.25;
    run.profile = {{"kernels", 1.5}, {"router", 0.25}};
    result.runs = {run};
    const BenchResult read = folder.read(to_json(result).dump());
    CHECK(to_json(read) == to_json(result));
    CHECK(read.runs.at(0).profile.at(1).seconds == 0.25);
    CHECK(read.runs.at(0).tokens_computed == 123'456);
  }

  TEST_CASE("bench result: an invalid file is refused, and the error names the member") {
    const ResultFile folder;
    CHECK(folder.refusal("[]") == ": expected an object: a result of troupe-lab bench rank --json");
    CHECK(folder.refusal("{\"runs\": []}") == ": runs: expected at least one run");
    CHECK(folder.refusal("{\"runs\": [{}]}") == ": runs[0]: expected a run with a policy and requests");
    CHECK(folder.refusal("{\"runs\": [{\"policy\": \"bat\", \"requests\": -1}]}") ==
          ": runs[0]: requests: expected a number, 0 or more");
    CHECK(folder.refusal("{\"in_flight\": 1e9, \"runs\": []}").find("in_flight: expected at most") !=
          std::string::npos);
    CHECK(folder.refusal("{\"settings\": [1], \"runs\": []}") == ": settings: expected texts, name=value");
    CHECK(folder.refusal(std::string(100, '[')).find("levels") != std::string::npos);
  }
}
