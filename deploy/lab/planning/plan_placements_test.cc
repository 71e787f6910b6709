#include "deploy/lab/planning/plan_placements.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "deploy/lab/planning/command_plan.h"
#include "deploy/lab/planning/plan_input.h"
#include "placement/cost/device_profiles.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

PlanOptions generated(double zipf, std::uint64_t memory_bytes) {
  PlanOptions options;
  options.items = 20'000;
  options.zipf = zipf;
  options.memory_bytes = memory_bytes;
  return options;
}

constexpr double two_points = 0.02;  // maximum difference between simulation and prediction

void check_simulated(const PlannedPlacement& planned, std::uint64_t memory_bytes) {
  CAPTURE(planned.name);
  CHECK(prediction_gap(planned) < two_points);
  CHECK(std::ranges::max(planned.node_bytes) <= memory_bytes);
  CHECK(planned.everywhere + planned.sharded + planned.nowhere == planned.placement.items());
  CHECK_FALSE(planned.why.empty());
}

// Returns the data set; empty if it is not there.
std::filesystem::path games() {
  const auto data = std::filesystem::path(TROUPE_ROOT_DIR).parent_path() / "shared" / "data" / "amazon-games";
  if (std::filesystem::exists(data)) return data;
  MESSAGE("skipped: needs ../shared/data/amazon-games");
  return {};
}

TEST_SUITE("plan placements") {
  TEST_CASE("plan placements: three placements of generated items agree with simulations") {
    for (const std::uint64_t memory : {600'000'000ULL, 3'000'000'000ULL, 60'000'000'000ULL}) {
      const Planning plan = make_planning(generated(0.7, memory));
      for (const std::string& name : placement_names) {
        const auto planned = plan_placement(name, plan.setup, plan.workload);
        CHECK(planned.has_value() == (name != "metis"));
        if (planned) check_simulated(*planned, memory);
      }
    }
  }

  TEST_CASE("plan placements: hrcs keeps the link within alpha, hashing on a slow link does not") {
    PlanOptions options = generated(0.7, 60'000'000'000);
    options.link = "10gbps";
    const Planning plan = make_planning(options);
    const auto hrcs = plan_placement("hrcs", plan.setup, plan.workload);
    const auto hash = plan_placement("hash", plan.setup, plan.workload);
    CHECK(hrcs->link_busy <= options.alpha);
    CHECK(hash->link_busy > options.alpha);
    CHECK(hrcs->expected.local > 0.9);
    CHECK(hrcs->why.find("R_max = ") != std::string::npos);
  }

  TEST_CASE("plan placements: popularity of the histories predicts well, of another population it does not") {
    const auto data = games();
    if (data.empty()) return;
    const PlanCatalog catalog = read_plan_catalog(data);
    const auto uses = count_uses(read_plan_histories(data, catalog, 100).requests, catalog.ids.size());
    const TestFolder folder;
    std::string fits, others;
    for (std::size_t i = 0; i < uses.size(); ++i) {
      fits += catalog.ids[i] + '\t' + std::to_string(uses[i]) + '\n';
      others += catalog.ids[i] + '\t' + std::to_string(10'000'000 / (uses.size() - i)) + '\n';
    }
    folder.write("fits.tsv", fits);
    folder.write("others.tsv", others);
    PlanOptions options;
    options.data = data.string();
    options.memory_bytes = 300'000'000;
    for (const std::string& name : placement_names) {
      options.popularity = (folder.path() / "fits.tsv").string();
      const Planning plan = make_planning(options);
      check_simulated(plan_placement(name, plan.setup, plan.workload).value(), options.memory_bytes);
    }
    options.popularity = (folder.path() / "others.tsv").string();
    const Planning plan = make_planning(options);
    CHECK(prediction_gap(plan_placement("replicate", plan.setup, plan.workload).value()) > 0.2);
  }

  TEST_CASE(
      "plan placements: predictions from real histories match simulations with others within two points") {
    const auto data = games();
    if (data.empty()) return;
    PlanOptions options;
    options.data = data.string();
    for (const std::uint64_t memory : {300'000'000ULL, 8'000'000'000ULL}) {
      options.memory_bytes = memory;
      const Planning plan = make_planning(options);
      double hash_best = 0, metis_best = 0;
      for (const std::string& name : placement_names) {
        const auto planned = plan_placement(name, plan.setup, plan.workload);
        REQUIRE(planned.has_value());
        check_simulated(*planned, memory);
        if (name == "hash") hash_best = planned->simulated.best;
        if (name == "metis") metis_best = planned->simulated.best;
      }
      CHECK(metis_best > hash_best + 0.1);  // items of one history are on one node
    }
  }

  TEST_CASE("plan options: invalid combinations are refused") {
    for (const char* nodes : {"", "0", "a", "1,1", "1,,2", "70000"}) {
      PlanOptions options = generated(0.7, 1'000'000'000);
      options.nodes = nodes;
      CHECK_THROWS_AS(make_planning(options), std::invalid_argument);
    }
    PlanOptions nothing;
    nothing.memory_bytes = 1;
    CHECK_THROWS_WITH_AS(make_planning(nothing),
                         "plan has no catalog; expected --data FOLDER, or --items N with --zipf S",
                         std::invalid_argument);
    PlanOptions some = generated(0.7, 1'000'000'000);
    some.nodes = "3,9";
    CHECK(make_planning(some).setup.nodes == std::vector<placement::NodeNumber>{3, 9});
  }
}

}  // namespace
