#include "kernels/cuda/bench/bench_table.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "kernels/testing/test_folder.h"

using namespace troupe::kernels;
using namespace troupe::kernels::cuda;

namespace {

MeasuredCeilings ceilings(double bytes, double flops) { return {{bytes, flops}, 1e9, 2e9, 3e-6}; }

// Returns a run with a product at half its floor, a copy at its floor, and a wrong row.
BenchRun example() {
  BenchRun run{.device = {.name = "some GPU", .capability = 90, .multiprocessors = 2, .l2_bytes = 3 << 20},
               .seed = 5,
               .rounds = 7,
               .before = ceilings(1e12, 90e12),
               .after = ceilings(1e12, 110e12)};
  run.rows.push_back({"product", "square", {{CostKind::product, 1e6, 1e9}}, 1, {20e-6, 19e-6, 22e-6}});
  run.rows.push_back({"copy", "large", {{CostKind::memory, 5e8, 0}}, 1, {5e-4, 5e-4, 6e-4}});
  run.rows.push_back({"attend", "odd", {{CostKind::attention, 1, 1}}, 1, {}, "number 3 was not written"});
  return run;
}

std::string table_of(const BenchRun& run) {
  std::ostringstream out;
  print_table(run, out);
  return out.str();
}

bool has(const std::string& text, const std::string& line) { return text.find(line) != std::string::npos; }

}  // namespace

TEST_SUITE("cuda bench table") {
  TEST_CASE("bench table: rows show floors and shares of the mean ceilings; a wrong row has no times") {
    const std::string table = table_of(example());
    CHECK(has(table, "some GPU, sm_90, 2 multiprocessors, 3 MiB of L2; seed 5; medians of 7 rounds."));
    CHECK(has(table, "| product | square | 20.0 | 10.0 | 50.0 | 0.050 | 5.0 | 50.000 | 50.0 |\n"));
    CHECK(has(table, "| copy | large | 500 | 500 | 100.0 | 1.000 | 100.0 | | |\n"));
    CHECK(has(table, "| attend | odd | not timed: number 3 was not written |\n"));
    CHECK(!has(table, "PyTorch"));
  }

  TEST_CASE("bench table: peers' times from a file are beside the rows they have") {
    const TestFolder folder;
    folder.write("peers.json", R"({"name": "PyTorch 9", "rows": {"product, square": {"seconds": 3e-5,
                                  "variant": "linear"}}})");
    BenchRun run = example();
    run.peers = read_peers(folder.path() / "peers.json");
    const std::string table = table_of(run);
    CHECK(has(table, "| % of product | PyTorch 9, us | x |\n"));
    CHECK(has(table, "| 50.0 | 30.0 (linear) | 1.50 |\n"));
    CHECK(has(table, "| 100.0 | | | | |\n"));
  }

  TEST_CASE("bench table: an invalid or absent peers' file is an error that names it") {
    const TestFolder folder;
    folder.write("peers.json", "{}");
    for (const char* name : {"peers.json", "absent.json"}) {
      std::string error;
      try {
        read_peers(folder.path() / name);
      } catch (const std::runtime_error& thrown) {
        error = thrown.what();
      }
      CHECK(has(error, name));
    }
  }

  TEST_CASE("bench table: JSON has the table's numbers and the spread of the rounds") {
    const TestFolder folder;
    write_json(example(), folder.path() / "run.json");
    const auto json = nlohmann::json::parse(folder.read("run.json"));
    CHECK(json["seed"] == 5);
    CHECK(json["ceilings_after"]["product_flops_per_second"] == 110e12);
    const auto& row = json["rows"][0];
    CHECK(row["seconds"] == 20e-6);
    CHECK(row["slowest_seconds"] == 22e-6);
    CHECK(row["floor_seconds"] == doctest::Approx(10e-6));
    CHECK(row["flops_per_second"] == doctest::Approx(50e12));
    CHECK(json["rows"][2]["fault"] == "number 3 was not written");
    CHECK(!json["rows"][2].contains("seconds"));
  }

  TEST_CASE("bench table: expectations have every device's floor and say that nothing was measured") {
    std::ostringstream out;
    print_expectations(example().rows, out);
    CHECK(out.str().starts_with(
        "# Expected times of the CUDA kernels: to be checked, nothing here was measured\n"));
    for (const DataSheet& sheet : data_sheets()) CHECK(has(out.str(), std::string(sheet.device) + " floor"));
    CHECK(has(out.str(), "| copy | large | 500.00 | 0.0 | 322 | 380 | 149 | 178 | 104 | 125 |\n"));
  }
}
