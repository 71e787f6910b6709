#include "deploy/lab/experiments/experiment.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "deploy/data/text_file.h"
#include "deploy/lab/experiments/grouped_requests.h"
#include "router/router_config.h"
#include "sim/cluster/cluster.h"
#include "sim/world/world_data.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

struct File {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("troupe-experiments-" + std::to_string(::getpid()) + ".json"))
                         .string();
  explicit File(const std::string& text) { std::ofstream(path) << text; }
  ~File() { std::filesystem::remove(path); }
};

std::string fault(const std::string& text) {
  const File file(text);
  try {
    read_experiments(file.path);
  } catch (const ImportError& error) {
    return error.what();
  }
  return "";
}

Experiment books(const std::string& policy, const std::string& placement, double items = 280'000) {
  Experiment e;
  e.arrangements = {"item_first", "user_first", "causal"};
  e.interchangeable = {"item_first", "user_first"};
  e.policy = policy;
  e.placement = placement;
  e.items = items;
  return e;
}

}  // namespace

TEST_CASE("experiment file: a list of experiments is read, with defaults") {
  const File file(R"([{"name": "a", "items": 1e6, "policy": "larger", "pulls_stall": false}, {}])");
  const auto experiments = read_experiments(file.path);
  REQUIRE(experiments.size() == 2);
  CHECK(experiments[0].name == "a");
  CHECK(experiments[0].items == 1e6);
  CHECK(experiments[0].policy == "larger");
  CHECK_FALSE(experiments[0].pulls_stall);
  CHECK(experiments[1].items == 280'000);
}

TEST_CASE("experiment file: an invalid list is refused, and the error names experiment and member") {
  CHECK(fault("{}").find("expected a JSON list of experiments") != std::string::npos);
  CHECK(fault("[3]").find("experiment 0: expected an object") != std::string::npos);
  CHECK(fault(R"([{}, {"nodes": 0}])").find("experiment 1: nodes is 0; expected 1") != std::string::npos);
  CHECK(fault(R"([{"nodes": "4"}])").find("nodes is \"4\"; expected 1") != std::string::npos);
  CHECK(fault(R"([{"pulls_stall": 1}])").find("pulls_stall is 1; expected true or false") !=
        std::string::npos);
  CHECK(fault(R"([{"overlap": true}])").find("expected \"pulls_stall\": false beside it") !=
        std::string::npos);
  CHECK(fault(R"([{"polcy": "bat"}])")
            .find("\"polcy\" is not a member; expected some of alpha, approximate, ") != std::string::npos);
  CHECK_THROWS_AS(prepare(books("best", "hrcs")), std::invalid_argument);
  CHECK_THROWS_AS(prepare(books("bat", "everywhere")), std::invalid_argument);
}

TEST_CASE(
    "experiment: a published shape without named arrangements is refused, and so is what a node refuses") {
  const auto refused_with = [](const Experiment& e) -> std::string {
    try {
      prepare(e);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  Experiment e = books("bat", "hrcs");
  e.name = "x";
  CHECK(refused_with(e) == "");
  e.arrangements = {};
  CHECK(refused_with(e).starts_with("x: arrangements is empty; expected"));
  e.arrangements = {"sideways"};
  CHECK(refused_with(e).starts_with("x: the declared form: arrangements has \"sideways\"; expected"));
  e.arrangements = {"causal", "item_first", "user_first"};  // the first one alone serves by default
  e.interchangeable = {};
  CHECK(refused_with(e).starts_with("x: router.policy is \"bat\", which serves"));
}

TEST_CASE("experiment: routers are configured like a node's, and only what the form allows is precomputed") {
  Experiment e = books("planner", "hrcs");
  const sim::Scenario prefixes = prepare(e).options.scenario;
  REQUIRE(prefixes.declared);
  CHECK(prefixes.declared->precompute.blocks == router::ItemBlockKind::prefix);
  CHECK(prefixes.declared->form.system.size() == e.system_tokens);
  CHECK(prefixes.policy == prefixes.declared->policy);
  e.arrangements = {"causal"};
  e.interchangeable = {};
  CHECK_FALSE(prepare(e).options.scenario.precompute);
  e.approximate = 0.5;
  const sim::Scenario moved = prepare(e).options.scenario;
  CHECK(moved.precompute);
  CHECK(moved.approximate == 0.5);
  CHECK(moved.declared->precompute.blocks == router::ItemBlockKind::movable);
  CHECK_FALSE(moved.declared->form.blocks_see_system);  // as in every form with a discriminant
}

TEST_CASE("experiment: the item area is what the placement of BAT's catalogs needs, users get the rest") {
  const double catalog_gb = 280'000.0 * 15 * 28'672 / 1e9;
  const PreparedExperiment all = prepare(books("bat", "replicate"));
  CHECK(all.item_gb == doctest::Approx(catalog_gb).epsilon(0.01));
  CHECK(all.item_gb + all.user_gb == doctest::Approx(150).epsilon(0.001));
  CHECK(all.replicated == 280'000);
  const PreparedExperiment hash = prepare(books("bat", "hash"));
  CHECK(hash.item_gb > catalog_gb / 4);
  CHECK(hash.item_gb < catalog_gb / 4 + 5);
  CHECK(hash.replicated == 0);
  CHECK(prepare(books("user", "hrcs")).item_gb == 0);
  CHECK(prepare(books("item", "hrcs")).user_gb == 0);
  const PreparedExperiment million = prepare(books("bat", "replicate", 1e6));  // more than fits
  CHECK(million.placed < 400'000);
}

TEST_CASE("experiment: HRCS replicates more items on a slower network") {
  Experiment e = books("bat", "hrcs");
  const PreparedExperiment fast = prepare(e);
  e.link = "10gbps";
  const PreparedExperiment slow = prepare(e);
  CHECK(fast.replicated < slow.replicated);
  CHECK(slow.replicated < 280'000);
  CHECK(fast.user_gb > slow.user_gb);
}

TEST_CASE("experiment: the scale divides quantities, not the size of each item or user") {
  Experiment e = books("bat", "hrcs");
  e.scale = 8;
  const sim::Scenario large = prepare(e).options.scenario;
  e.scale = 16;
  const sim::Scenario small = prepare(e).options.scenario;
  CHECK(large.items == 35'000);
  CHECK(small.items == 17'500);
  CHECK(large.users == 2 * small.users);
  CHECK(large.pages == doctest::Approx(2.0 * small.pages).epsilon(0.001));
  CHECK(large.item_tokens == small.item_tokens);
  CHECK(large.frequency_window.us == doctest::Approx(2.0 * static_cast<double>(small.frequency_window.us)));
  TracedRequest request;
  e.candidates = 7;
  const PreparedExperiment prepared = prepare(e);
  REQUIRE(prepared.options.requests(request));
  CHECK(request.candidates.size() == 7);
  CHECK(request.events.empty());
}

TEST_CASE("experiment: users with long profiles are drawn more often and return sooner") {
  const auto mean_tokens = [](double drawn, double returns) {
    Experiment e = books("user", "hrcs");
    e.users = 2'000;
    e.scale = 1;
    e.candidates = 1;
    e.return_share = returns > 0 ? 0.9 : 0;
    e.return_after = 100;
    e.drawn_by_length = drawn;
    e.returns_by_length = returns;
    const PreparedExperiment prepared = prepare(e);
    const sim::WorldData world(sim::world_options(prepared.options.scenario));
    double sum = 0;
    TracedRequest request;
    for (int i = 0; i < 2'000; ++i) {
      REQUIRE(prepared.options.requests(request));
      sum += world.history_length(std::stoul(request.user.substr(1)));
    }
    return sum / 2'000;
  };
  const double alike = mean_tokens(0, 0), drawn = mean_tokens(1, 0);
  CHECK(alike == doctest::Approx(1'586).epsilon(0.05));
  CHECK(drawn > 1.25 * alike);  // e^(0.6²), less the part beyond the longest profile
  CHECK(mean_tokens(0, 1) > 0.9 * alike);
}

TEST_CASE("experiment: the frequency window may be given in seconds and is scaled") {
  Experiment e = books("bat", "hrcs");
  e.window_s = 3'600;
  e.scale = 16;
  CHECK(prepare(e).options.scenario.frequency_window.us == 225'000'000);
}

TEST_CASE("grouped requests: most candidates come from one group, none twice, and their number varies") {
  GroupedRequests requests(
      {.items = 1'000, .group_items = 50, .share = 0.9, .candidates = 20, .candidates_sigma = 0.4});
  std::size_t all = 0, own = 0, least = 1'000, most = 0;
  for (int i = 0; i < 500; ++i) {
    std::vector<placement::ItemNumber> items = requests.next_items();
    std::vector<std::size_t> of_group(20);
    for (const placement::ItemNumber item : items) ++of_group.at(item / 50);
    own += *std::ranges::max_element(of_group);
    all += items.size();
    least = std::min(least, items.size());
    most = std::max(most, items.size());
    std::ranges::sort(items);
    REQUIRE(std::ranges::adjacent_find(items) == items.end());
  }
  CHECK(static_cast<double>(own) / static_cast<double>(all) == doctest::Approx(0.9).epsilon(0.03));
  CHECK(least == 10);
  CHECK(most == 35);
  GroupedRequests one({.seed = 3}), same({.seed = 3}), other({.seed = 4});
  const auto items = one.next_items();
  CHECK(items == same.next_items());
  CHECK(items != other.next_items());
}

TEST_CASE("experiment: metis puts a request's items on one node, hash spreads them") {
  Experiment e = books("all_blocks+30:attention", "metis", 32'000);
  e.arrangements = {"causal"};
  e.interchangeable = {};
  e.nodes = 8;
  e.scale = 16;
  e.candidates = 20;
  e.group_items = 50;
  e.routing = "affinity";
  e.approximate = 0.4;
  e.routers = 1;
  const PreparedExperiment metis = prepare(e);
  e.placement = "hash";
  const PreparedExperiment hash = prepare(e);
  CHECK(metis.best_mean > 0.8);
  CHECK(metis.best_median >= metis.best_mean - 0.1);
  CHECK(hash.best_mean < 0.4);
  CHECK(metis.node_tokens == doctest::Approx(32'000 * 15 / 8).epsilon(0.1));
  CHECK(metis.options.scenario.places != nullptr);
  CHECK(metis.options.scenario.routers == 1);
  CHECK(metis.options.scenario.declared->routing.by == router::Routing::By::affinity);
  CHECK(metis.options.scenario.approximate == 0.4);
  CHECK(metis.options.scenario.precompute);
  e.group_items = 0;
  e.placement = "metis";
  CHECK_THROWS_AS(prepare(e), std::invalid_argument);
  e.placement = "hash";
  e.routing = "nearest";
  CHECK_THROWS_AS(prepare(e), std::invalid_argument);
}

TEST_CASE("experiment: several devices of a node multiply its speed and its host link") {
  Experiment e = books("causal", "hrcs");
  e.arrangements = {"causal"};
  e.interchangeable = {};
  const sim::Scenario one = prepare(e).options.scenario;
  e.devices = 4;
  e.requests_per_s = 5;
  const PreparedExperiment four = prepare(e);
  CHECK(four.options.scenario.host_bytes_per_us == doctest::Approx(4 * one.host_bytes_per_us));
  CHECK(four.options.scenario.us_per_token < 0.4 * one.us_per_token);
  CHECK(four.options.in_flight == 0);
}
