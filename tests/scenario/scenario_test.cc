// The production actors with the production kernels, in both worlds.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/scenario/box_world.h"

using namespace troupe;
using namespace troupe::scenario;

namespace {

struct Seen {
  std::string plan;
  std::uint32_t total = 0, computed = 0, reused = 0, history_cut = 0;
  std::vector<RankedItem> items;
};

// One history of requests: repeat visits under every policy, a changed profile, a changed item, bad requests.
std::vector<Seen> run_history(World world, std::uint64_t seed) {
  const TestFolder folder;
  RunningBox box(world, box_config(folder), true, seed);
  box.wait_until_precomputed();
  const auto& requests = demo_world().requests;
  std::vector<Seen> outcomes;
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

void check_same(const std::vector<Seen>& a, const std::vector<Seen>& b) {
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
  TEST_CASE("both worlds give the same replies to the same history") {
    const std::vector<Seen> real = run_history(World::caf, 1);
    check_same(real, run_history(World::simulation, 1));
    check_same(real, run_history(World::simulation, 2));
  }

  TEST_CASE("a repeat visit reuses the user's block, and any request with known items reuses theirs") {
    const TestFolder folder;
    RunningBox box(World::caf, box_config(folder), true);
    box.wait_until_precomputed();
    const auto& row = demo_world().requests[0];
    const RankReply first = box.rank(1, row.user, row.candidates, "user");
    const RankReply second = box.rank(2, row.user, row.candidates, "user");
    const RankReply items = box.rank(3, row.user, row.candidates, "item");
    const RankReply none = box.rank(4, row.user, row.candidates, "recompute");
    CHECK(second.tokens_computed < first.tokens_computed);
    CHECK(items.tokens_reused > items.tokens_computed);
    CHECK(none.tokens_reused == 0);
    for (std::size_t i = 0; i < none.items.size(); ++i) {  // reuse changes the cost, not the answer
      CHECK(none.items[i].id == second.items[i].id);
      CHECK(std::abs(none.items[i].score - second.items[i].score) < 1e-4);
    }
  }

  TEST_CASE("a new process takes item blocks from the store and computes none again") {
    const TestFolder folder;
    double saved = 0;
    RankReply before;
    const auto& row = demo_world().requests[1];
    {
      RunningBox box(World::caf, box_config(folder), true);
      box.wait_until_precomputed();
      before = box.rank(1, row.user, row.candidates, "item");
      RequestId id = 100;  // every block is saved behind the answers; the store is asked until all are
      while (box.metric(Metric::item_blocks_saved) < box.metric(Metric::blocks_computed_item))
        box.ask(StatusRequest{++id});
      saved = box.metric(Metric::item_blocks_saved);
    }
    CHECK(saved > 0);
    RunningBox box(World::caf, box_config(folder), false);
    box.wait_until_precomputed();
    const RankReply after = box.rank(1, row.user, row.candidates, "item");
    CHECK(box.metric(Metric::item_blocks_loaded) >= saved);
    CHECK(box.metric(Metric::blocks_computed_item) == 0);
    CHECK(after.tokens_computed == before.tokens_computed);
    for (std::size_t i = 0; i < after.items.size(); ++i)
      CHECK(std::abs(after.items[i].score - before.items[i].score) < 1e-4);
  }

  TEST_CASE("requests that need the same missing block compute it once") {
    const TestFolder folder;
    RunningBox box(World::simulation, box_config(folder, {"pool.precompute_items=false"}), true);
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

  TEST_CASE("a pool too small for one request still answers, and keeps nothing") {
    const TestFolder folder;
    RunningBox box(World::caf, box_config(folder, {"pool.memory=1MiB", "pool.item_share=1"}), true);
    const auto& row = demo_world().requests[0];
    const RankReply reply = box.rank(1, row.user, row.candidates, "user");
    CHECK(reply.items.size() == row.candidates.size());
    CHECK(box.rank(2, row.user, row.candidates, "user").tokens_reused ==
          8);  // of the system block, which fits
  }
}
