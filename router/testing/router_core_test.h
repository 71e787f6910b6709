#pragma once
// Bench for tests of the router: one RouterCore, where the test plays features, index and workers
// by hand.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "router/router_core.h"
#include "runtime/testing/catalog_test.h"
#include "runtime/testing/core_probe.h"
#include "runtime/testing/shared_ranker.h"

namespace troupe::router {

inline constexpr Address server{1, Role::server}, meta{1, Role::cache_meta},
    worker{1, Role::inference_worker};

// Returns the config of one worker without a Coordination; heartbeats and budgets are 1000 us.
inline RouterConfig small_config() {
  RouterConfig result;
  result.incarnation = 100;
  result.form = shared_ranker({{1, 2}, {3}, {4}, {5}, 64, 1'000});
  result.names = {"model 1", "layout 1"};
  result.limits.request_tokens_max = 60;
  result.in_flight_max = 2;
  result.writes_in_flight_max = 1;
  result.budget = {1'000};
  result.lookup_wait_min = {50};
  result.heartbeat = {1'000};
  result.pace = {.us_per_operation = 1};
  return result;
}
inline RouterConfig cluster_config(std::vector<NodeId> workers) {
  RouterConfig result = small_config();
  result.workers = std::move(workers);
  result.routers = {8};
  result.in_flight_max = 64;
  return result;
}

// Prototypes for even tokens.
class EvenTokens final : public PrototypeSet {
 public:
  bool has_prototype(Token token, std::uint32_t) const override { return token % 2 == 0; }
  const std::string& checksum() const override { return checksum_; }
  const std::string& model_version() const override { return model_; }

 private:
  const std::string checksum_ = "even", model_ = "model 1";
};

inline Item test_item(const std::string& id, std::size_t tokens = 4) {
  Item result{id, "the " + id, std::vector<Token>(tokens, 10), 20, {}};
  result.block.bytes[0] = static_cast<std::uint8_t>(id[0]);
  return result;
}
// Returns a user with a history of `tokens` tokens and two items of four tokens each.
inline Features test_features(std::uint32_t tokens = 20) {
  const Profile user{7, std::vector<Token>(tokens, 30), std::vector<std::uint32_t>(tokens, 1)};
  return features_of(std::make_shared<const Profile>(user), {test_item("a"), test_item("b")}, "catalog 1");
}
inline Heartbeat beat_of(Incarnation incarnation, std::uint64_t executed = 0) {
  Heartbeat beat{.incarnation = incarnation, .slots = 1, .plans_executed = executed};
  beat.models = {"model 1"};
  return beat;
}

// Holders that the index reports for the user's block and the items' blocks, for whichever plan
// asks.
struct IndexAnswer {
  std::vector<NodeId> user;
  std::vector<std::uint8_t> item_counts;
  std::vector<NodeId> items;
  double user_frequency = 0, coldest_frequency = 0;
  std::vector<BlockName> coldest = {};
  double user_uses = 0;
};
inline BlocksFound answer_of(const LookupBlocks& asked, const IndexAnswer& held) {
  BlocksFound found{.id = asked.id,
                    .user_frequency = held.user_frequency,
                    .coldest_frequency = held.coldest_frequency,
                    .coldest = held.coldest};
  std::size_t item = 0, at = 0;
  for (const BlockQuery& block : asked.blocks) {
    const bool users = block.kind == SegmentKind::user;
    const std::size_t count = users ? held.user.size() : held.item_counts.at(item++);
    const auto from = users ? held.user.begin() : held.items.begin() + static_cast<std::ptrdiff_t>(at);
    if (!users) at += count;
    found.holders.insert(found.holders.end(), from, from + static_cast<std::ptrdiff_t>(count));
    found.counts.push_back(static_cast<std::uint8_t>(count));
    found.uses.push_back(users ? held.user_uses : 0);
  }
  return found;
}

struct RouterBench {
  explicit RouterBench(RouterConfig config = small_config()) : core(std::move(config)), probe(core) {}

  RouterCore core;
  CoreProbe probe;
  std::uint64_t job = 0;     // features job of the last request
  std::uint64_t serial = 0;  // of the last lookup or plan
  NodeId node = 0;           // node of the last plan
  LookupBlocks asked;        // the last lookup
  std::uint64_t beats = 0;

  void rank(std::int64_t us, RequestId id, const std::string& policy = "bat", std::int64_t budget = 0,
            const std::string& user = "ann") {
    probe.receive(us, server, RankRequest{id, "t", user, {"a", "b"}, 0, policy, budget});
    for (const auto& [started, work] : probe.started<FindFeatures>()) job = started;
  }
  void find(std::int64_t us, Features found = test_features()) {
    probe.done(us, job, std::move(found));
    look();
  }
  void index(std::int64_t us, double user_frequency, double coldest, std::vector<BlockName> evict = {}) {
    index(us, IndexAnswer{{}, {0, 0}, {}, user_frequency, coldest, std::move(evict)});
  }
  void index(std::int64_t us, const IndexAnswer& held) {
    probe.receive(us, meta, answer_of(asked, held));
    look();
  }
  // Sends a request up to a worker, without the index.
  void send(std::int64_t us, RequestId id, std::int64_t budget = 0, const std::string& user = "ann") {
    rank(us, id, "recompute", budget, user);
    find(us);
  }
  Execute plan() const {
    REQUIRE(probe.sent<Execute>().size() == 1);
    return probe.sent<Execute>()[0];
  }
  Executed answer(std::vector<double> logits, std::vector<std::uint8_t> reused = {0, 0, 0, 0, 0, 0}) const {
    return {serial, {{std::move(logits)}}, std::move(reused), 2, 3, 4, 5, "model 1", 6};
  }
  void execute(std::int64_t us, std::vector<double> logits,
               std::vector<std::uint8_t> reused = {0, 0, 0, 0, 0, 0}) {
    probe.receive(us, worker, answer(std::move(logits), std::move(reused)));
  }
  void execute_at(std::int64_t us, NodeId at) {
    probe.receive(us, {at, Role::inference_worker}, answer({1, 2}));
  }
  void refuse_at(std::int64_t us, NodeId at, RefusalKind kind, const std::string& code) {
    probe.receive(us, {at, Role::inference_worker}, Refused{serial, {kind, code}});
    look();
  }
  void beat(std::int64_t us, NodeId at, Heartbeat heartbeat) {
    heartbeat.sequence = ++beats;
    probe.receive(us, {at, Role::inference_worker}, heartbeat);
    look();
  }
  void answer_at(std::int64_t us, NodeId at, Executed executed) {
    probe.receive(us, {at, Role::inference_worker}, std::move(executed));
    look();
  }
  void lose(std::int64_t us, NodeId at) {
    probe.lose(us, at);
    look();
  }
  void run_until(std::int64_t us) {
    probe.run_until(us);
    look();
  }
  std::string refused() const {
    const auto list = probe.sent<Refused>();
    return list.size() == 1 ? std::string(name_of(list[0].refusal.kind)) + " " + list[0].refusal.code : "";
  }
  std::size_t plans() const { return probe.sent<Execute>().size(); }
  std::size_t replies() const { return probe.sent<RankReply>().size(); }

 private:
  void look() {
    for (const auto& effect : probe.effects.list)
      if (const auto* send = std::get_if<Effects::Send>(&effect)) {
        if (const auto* lookup = std::get_if<LookupBlocks>(&send->message))
          serial = lookup->id, asked = *lookup;
        if (const auto* plan = std::get_if<Execute>(&send->message)) serial = plan->id, node = send->to.node;
      }
  }
};

}  // namespace troupe::router
