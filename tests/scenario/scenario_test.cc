// Tests of the production actors with the production kernels, on the real host and in the simulation.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/scenario/node_world.h"

using namespace troupe;
using namespace troupe::scenario;

namespace {

struct ObservedReply {
  std::string plan;
  std::uint32_t total = 0, computed = 0, reused = 0, history_cut = 0;
  std::vector<RankedItem> items;
};

// Runs a fixed history of requests: repeat visits under every policy, a changed profile, a changed item,
// bad requests.
std::vector<ObservedReply> run_history(World world, std::uint64_t seed) {
  const TestFolder folder;
  RunningNode box(world, node_config(folder), true, seed);
  box.wait_until_precomputed();
  const auto& requests = demo_world().requests;
  std::vector<ObservedReply> outcomes;
  RequestId id = 0;
  auto rank = [&](std::size_t row, const std::string& policy) {
    const RankReply r = box.rank(++id, requests[row].user, requests[row].candidates, policy);
    outcomes.push_back({r.plan, r.tokens_total, r.tokens_computed, r.tokens_reused, r.history_cut, r.items});
  };
  auto refusal = [&](Message message) {
    const Message answer = box.ask(std::move(message));
    outcomes.push_back({std::get<Refused>(answer).refusal.code, 0, 0, 0, 0, {}});
  };
  for (const char* policy : {"recompute", "user", "item", "bat"})
    for (const std::size_t row : {0, 1, 0, 2}) rank(row, policy);
  box.ask(PutUser{++id, "", requests[0].user, {requests[0].candidates[0]}, {}});
  rank(0, "user");
  box.ask(PutItem{++id, requests[0].candidates[1], "another item", {20, 21}, 40});
  rank(0, "item");
  refusal(RankRequest{++id, "", "nobody at all", requests[0].candidates});
  refusal(RankRequest{++id, "", requests[0].user, {"no such item"}});
  refusal(RankRequest{++id, "", requests[0].user, {}});
  return outcomes;
}

// Runs a mixture of rankings, scores, writes, deletions and bad requests drawn from a seed. Returns
// complete outcomes, without what depends on clocks.
std::vector<Message> run_drawn_history(World world, unsigned history, std::uint64_t seed) {
  const TestFolder folder;
  RunningNode box(world, node_config(folder), true, seed);
  box.wait_until_precomputed();
  const auto& rows = demo_world().requests;
  std::mt19937 random(history);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto tokens = [&] {
    return std::vector<Token>{static_cast<Token>(20 + below(20)), static_cast<Token>(20 + below(20))};
  };
  std::vector<Message> outcomes;
  for (RequestId id = 1; id <= 80; ++id) {
    const auto& row = rows[below(std::min<std::size_t>(rows.size(), 12))];
    const std::string item = row.candidates[below(row.candidates.size())];
    Message request;
    switch (below(12)) {
      case 0:
        request = PutUser{id, "", row.user, {row.candidates[0], item}, {}};
        break;
      case 1:
        request = PutItem{id, item, "now " + item, tokens(), static_cast<Token>(40 + below(20))};
        break;
      case 2:
        request = below(3) == 0 ? Message(DeleteUser{id, "", row.user}) : DeleteItem{id, item};
        break;
      case 3:
        request = ScoreRequest{id, "", tokens(), {{tokens()}, {tokens()}}, {21, 22}, below(2) == 0};
        break;
      default: {
        RankRequest rank{id};
        rank.user = row.user;
        rank.candidates = row.candidates;
        rank.candidates.resize(1 + below(rank.candidates.size()));
        rank.top_k = static_cast<std::uint32_t>(below(6));
        if (below(4) == 0) {
          rank.user.clear();
          rank.own_history = true;
          rank.history.assign(below(4), item);
        } else if (below(2) == 0) {
          rank.unknown_user = UnknownUser::cold;
        }
        rank.policy =
            std::array{"recompute", "user", "item", "bat", "none such"}[below(40) == 0 ? 4 : below(4)];
        request = rank;
      }
    }
    outcomes.push_back(box.ask(std::move(request)));
    box.wait_until_precomputed();  // new items are precomputed eventually
    box.settle();
  }
  return outcomes;
}

void check_same(const Message& a, const Message& b) {
  REQUIRE(a.index() == b.index());
  if (const auto* one = std::get_if<RankReply>(&a)) {
    RankReply x = *one, y = std::get<RankReply>(b);
    REQUIRE(x.items.size() == y.items.size());
    for (std::size_t i = 0; i < x.items.size(); ++i) {
      CHECK(std::abs(x.items[i].score - y.items[i].score) < 1e-4);
      x.items[i].score = y.items[i].score;
    }
    x.timings = y.timings = {};
    CHECK(x == y);
  } else if (const auto* refused = std::get_if<Refused>(&a)) {
    CHECK(refused->refusal == std::get<Refused>(b).refusal);
  } else if (const auto* score = std::get_if<ScoreReply>(&a)) {
    CHECK(score->tokens_computed == std::get<ScoreReply>(b).tokens_computed);
  } else if (const auto* stored = std::get_if<Stored>(&a)) {
    CHECK(stored->version == std::get<Stored>(b).version);
  }
}

void check_same(const std::vector<ObservedReply>& a, const std::vector<ObservedReply>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(a[i].plan == b[i].plan);
    CHECK(a[i].total == b[i].total);
    CHECK(a[i].computed == b[i].computed);
    CHECK(a[i].reused == b[i].reused);
    REQUIRE(a[i].items.size() == b[i].items.size());
    for (std::size_t n = 0; n < a[i].items.size(); ++n) {
      CHECK(a[i].items[n].id == b[i].items[n].id);
      CHECK(std::abs(a[i].items[n].score - b[i].items[n].score) < 1e-4);
    }
  }
}

}  // namespace

TEST_SUITE("scenario") {
  TEST_CASE("scenario: both worlds give the same replies, with messages as structs or as bytes") {
    const std::vector<ObservedReply> real = run_history(World::caf, 1);
    check_same(real, run_history(World::caf_bytes, 1));
    check_same(real, run_history(World::simulation, 1));
    check_same(real, run_history(World::simulation, 2));
  }

  TEST_CASE("scenario: random histories get the same plans and replies in both worlds") {
    for (const unsigned history : {1U, 2U}) {
      CAPTURE(history);
      const std::vector<Message> real = run_drawn_history(World::caf, history, 1);
      const std::vector<Message> simulated = run_drawn_history(World::simulation, history, history);
      REQUIRE(real.size() == simulated.size());
      for (std::size_t i = 0; i < real.size(); ++i) {
        CAPTURE(i);
        check_same(real[i], simulated[i]);
      }
    }
  }

  TEST_CASE("scenario: a repeat visit reuses the user's block, and known items reuse theirs") {
    const TestFolder folder;
    RunningNode box(World::caf, node_config(folder), true);
    box.wait_until_precomputed();
    const auto& row = demo_world().requests[0];
    const RankReply first = box.rank(1, row.user, row.candidates, "user");
    const RankReply second = box.rank(2, row.user, row.candidates, "user");
    const RankReply items = box.rank(3, row.user, row.candidates, "item");
    const RankReply none = box.rank(4, row.user, row.candidates, "recompute");
    CHECK(second.tokens_computed < first.tokens_computed);
    CHECK(items.tokens_reused > items.tokens_computed);
    CHECK(none.tokens_reused == 0);
    REQUIRE(none.arrangement == items.arrangement);
    for (std::size_t i = 0; i < none.items.size(); ++i) {  // reuse changes the cost, not the answer
      CHECK(none.items[i].id == items.items[i].id);
      CHECK(std::abs(none.items[i].score - items.items[i].score) < 1e-4);
    }
    for (std::size_t i = 0; i < first.items.size(); ++i) {
      CHECK(first.items[i].id == second.items[i].id);
      CHECK(std::abs(first.items[i].score - second.items[i].score) < 1e-4);
    }
  }

  TEST_CASE("scenario: a history in a request and a stored user with the same events share their block") {
    for (const World world : {World::caf, World::caf_bytes, World::simulation}) {
      const TestFolder folder;
      RunningNode box(world, node_config(folder), true);
      box.wait_until_precomputed();
      const auto& row = demo_world().requests[0];
      RequestId id = 0;
      const auto ask = [&](RankRequest request) {
        request.id = ++id;
        request.candidates = row.candidates;
        request.policy = "user";
        const Message answer = box.ask(std::move(request));
        if (const auto* refused = std::get_if<Refused>(&answer)) FAIL(refused->refusal.what);
        box.settle();
        return std::get<RankReply>(answer);
      };
      const std::vector<std::string> events{row.candidates[0], row.candidates[1], row.candidates[0]};
      const RankRequest own{.history = events, .own_history = true};
      const RankReply first = ask(own), again = ask(own);
      box.ask(PutUser{++id, "", "zed", events});
      const RankReply stored = ask({.user = "zed"});
      CHECK(again.blocks_reused > first.blocks_reused);
      CHECK(stored.tokens_reused == again.tokens_reused);
      REQUIRE(stored.items.size() == first.items.size());
      for (std::size_t i = 0; i < first.items.size(); ++i)
        CHECK(std::abs(stored.items[i].score - first.items[i].score) < 1e-4);
      CHECK(first.profile_version == 0);
      const RankReply cold = ask({.user = "nobody at all", .unknown_user = UnknownUser::cold}),
                      visitor = ask({.own_history = true});
      CHECK(cold.unknown_user == "cold");
      CHECK(visitor.unknown_user == "");
      CHECK(cold.tokens_total == visitor.tokens_total);
      CHECK(cold.tokens_total < first.tokens_total);
    }
  }

  TEST_CASE("scenario: a new process loads item blocks from the store and computes none again") {
    const TestFolder folder;
    double saved = 0;
    RankReply before;
    const auto& row = demo_world().requests[1];
    {
      RunningNode box(World::caf, node_config(folder), true);
      box.wait_until_precomputed();
      before = box.rank(1, row.user, row.candidates, "item");
      RequestId id = 100;  // blocks are saved behind the answers; requests continue until all are saved
      while (box.metric(Metric::item_blocks_saved) < box.metric(Metric::blocks_computed_item))
        box.ask(StatusRequest{++id});
      saved = box.metric(Metric::item_blocks_saved);
    }
    CHECK(saved > 0);
    RunningNode box(World::caf, node_config(folder), false);
    box.wait_until_precomputed();
    const RankReply after = box.rank(1, row.user, row.candidates, "item");
    CHECK(box.metric(Metric::item_blocks_loaded) >= saved);
    CHECK(box.metric(Metric::blocks_computed_item) == 0);
    CHECK(after.tokens_computed == before.tokens_computed);
    for (std::size_t i = 0; i < after.items.size(); ++i)
      CHECK(std::abs(after.items[i].score - before.items[i].score) < 1e-4);
  }

  TEST_CASE("scenario: requests that need the same missing block compute it once") {
    const TestFolder folder;
    RunningNode box(World::simulation, node_config(folder, {"pool.precompute_items=false"}), true);
    const auto& row = demo_world().requests[2];
    for (RequestId id = 1; id <= 8; ++id) {
      RankRequest request;
      request.id = id;
      request.user = row.user;
      request.candidates = row.candidates;
      request.policy = "user";
      box.post(request);
    }
    for (RequestId id = 1; id <= 8; ++id) CHECK(std::holds_alternative<RankReply>(box.answer(id)));
    CHECK(box.metric(Metric::blocks_computed_user) == 1);
    CHECK(box.metric(Metric::blocks_hit_user) == 7);
  }

  TEST_CASE(
      "scenario: flipped bits are found within a scrubber round, or at every use if that is "
      "configured") {
    for (const World world : {World::caf, World::simulation}) {
      for (const std::string setting : {"pool.scrub_interval=1s", "pool.verify_on_read=true"}) {
        CAPTURE(setting);
        const TestFolder folder;
        RunningNode box(world, node_config(folder, {setting, "pool.store_item_blocks=false"}), true);
        box.wait_until_precomputed();
        const auto& row = demo_world().requests[0];
        const RankReply before = box.rank(1, row.user, row.candidates, "item");
        box.settle();
        box.flip_bit_of_each_page();
        const double blocks = box.metric(Metric::item_blocks_precomputed);
        RequestId id = 100;  // let time pass
        for (int round = 0; setting.starts_with("pool.scrub") && round < 100'000; ++round) {
          if (box.metric(Metric::blocks_corrupt) >= blocks) break;
          if (world == World::simulation) box.run_for({10'000});
          box.ask(StatusRequest{++id});
        }
        const RankReply after = box.rank(2, row.user, row.candidates, "item");
        box.settle();
        CHECK(box.metric(Metric::blocks_corrupt) > 0);
        REQUIRE(after.items.size() == before.items.size());
        for (std::size_t i = 0; i < after.items.size(); ++i)
          CHECK(std::abs(after.items[i].score - before.items[i].score) < 1e-4);
      }
    }
  }

  TEST_CASE("scenario: item blocks are kept in the user area where only requests by name reuse them") {
    const TestFolder folder, forms;
    auto form = nlohmann::json::parse(std::ifstream(demo_world().model / "prompt.json"));
    form["arrangements"] = {"causal", "item_first"};
    form.erase("interchangeable");
    forms.write("form.json", form.dump());
    const std::string prompt = "model.prompt=" + (forms.path() / "form.json").string();
    RunningNode box(World::caf, node_config(folder, {prompt}), true);
    const auto& row = demo_world().requests[0];
    const RankReply first = box.rank(1, row.user, row.candidates, "item");
    box.settle();
    const RankReply second = box.rank(2, row.user, row.candidates, "item");
    CHECK(first.plan == "item");
    CHECK(second.tokens_reused > first.tokens_reused + row.candidates.size());
    CHECK(second.blocks_written == 0);
    REQUIRE(second.items.size() == first.items.size());
    for (std::size_t i = 0; i < first.items.size(); ++i)
      CHECK(std::abs(second.items[i].score - first.items[i].score) < 1e-4);
    CHECK(box.metric(Metric::item_pages) == 0);
    CHECK(box.metric(Metric::user_pages) > 0);
  }

  TEST_CASE("scenario: a pool too small for one request still answers, and keeps nothing") {
    const TestFolder folder;
    RunningNode box(World::caf, node_config(folder, {"pool.memory=1MiB", "pool.item_share=1"}), true);
    const auto& row = demo_world().requests[0];
    const RankReply reply = box.rank(1, row.user, row.candidates, "user");
    CHECK(reply.items.size() == row.candidates.size());
    // The system block, which fits.
    CHECK(box.rank(2, row.user, row.candidates, "user").tokens_reused == 8);
  }
}
