#include "runtime/host/model_actor.h"

#include <doctest/doctest.h>

#include "runtime/testing/core_probe.h"

using namespace troupe;

namespace {
namespace model_actor_test {

// Sends what the test sets up, and records the received messages.
class ScriptedCore final : public Core {
 public:
  explicit ScriptedCore(std::vector<Received>& heard) : heard_(heard) {}
  void step(Instant, Event&& event, Effects& effects) override {
    if (const auto* received = std::get_if<Received>(&event)) heard_.push_back(*received);
    for (auto& [to, message] : says) effects.send(to, message);
    says.clear();
    if (counts) effects.count(Metric::tokens_total, 5);
    if (counts) effects.count(Metric::protocol_errors, 7);
    if (counts) effects.log(LogLevel::info, "counted");
  }
  std::vector<std::pair<Address, Message>> says;
  bool counts = false;

 private:
  std::vector<Received>& heard_;
};

constexpr Address server{1, Role::server}, router{1, Role::router}, worker{1, Role::inference_worker},
    cache{1, Role::kv_worker}, meta{1, Role::cache_meta};
constexpr NodeId own = ModelActorIds{4}.number(1, 3), elsewhere = ModelActorIds{4}.number(7, 3),
                 other = ModelActorIds{4}.number(7, 2);

struct Bench {
  std::vector<Received> heard;
  MetricRegistry metrics;
  ScriptedCore* core = new ScriptedCore(heard);
  ModelActor actor{std::unique_ptr<Core>(core), {"news", 3, {4}, 8, &metrics}};
  CoreProbe probe{actor};

  template <class M>
  M say(Address to, M message) {
    core->says = {{to, std::move(message)}};
    probe.receive(0, server, StatusRequest{});
    REQUIRE(probe.sent<M>().size() == 1);
    return probe.sent<M>().front();
  }
};

}  // namespace model_actor_test
using model_actor_test::Bench;
}  // namespace

TEST_CASE("model actor: the model's router and worker have their own numbers, which their cores never see") {
  using namespace model_actor_test;
  Bench b;
  b.say(worker, Drain{1});
  CHECK(b.probe.recipients() == std::vector<Address>{{own, Role::inference_worker}});
  b.say({7, Role::router}, Drain{5});
  CHECK(b.probe.recipients() == std::vector<Address>{{elsewhere, Role::router}});
  b.say(meta, Drain{2});
  CHECK(b.probe.recipients() == std::vector<Address>{meta});
  b.heard.clear();
  b.probe.receive(0, {own, Role::router}, Drain{3});
  b.probe.receive(0, cache, Drain{4});
  b.probe.receive(0, {elsewhere, Role::inference_worker}, Drain{6});
  REQUIRE(b.heard.size() == 3);
  CHECK(b.heard[0].from == router);
  CHECK(b.heard[0].message == Message(Drain{3}));
  CHECK(b.heard[1].from == cache);
  CHECK(b.heard[2].from == Address{7, Role::inference_worker});
}

TEST_CASE("model actor: a message of another model's actor is refused") {
  using namespace model_actor_test;
  Bench b;
  b.probe.receive(0, {other, Role::router}, Drain{3});
  b.probe.receive(0, {1, Role::inference_worker}, Drain{4});  // an actor of the first model
  CHECK(b.heard.empty());
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
}

TEST_CASE("model actor ids: a number gives a node and a model, and an unused number gives none") {
  constexpr ModelActorIds four{4}, one;
  for (const NodeId node : {NodeId{1}, NodeId{7}, ModelActorIds::nodes_max})
    for (std::uint32_t model = 0; model < 4; ++model) {
      CHECK(four.node_of(four.number(node, model)) == node);
      CHECK(four.model_of(four.number(node, model)) == model);
    }
  CHECK(four.number(7, 0) == 7);
  CHECK(four.node_of(ModelActorIds{5}.number(7, 4)) == 0);
  // nodes of a cluster with one model may have any number
  CHECK(one.node_of(0xFFFF'FFFF) == 0xFFFF'FFFF);
}

TEST_CASE("model actor: owners get their model's name, and block sizes are converted to pages") {
  using namespace model_actor_test;
  Bench b;
  const auto lookup =
      b.say(meta, LookupBlocks{1, "ana", {{{}, SegmentKind::user, 17}, {{}, SegmentKind::item, 8}}});
  CHECK(lookup.user == "news/ana");
  CHECK(lookup.blocks[0].tokens == 3);
  CHECK(lookup.blocks[1].tokens == 1);
  const auto ask =
      b.say(cache, AcquireBlocks{2, 0, {{{}, SegmentKind::item, "5", 9}, {{}, SegmentKind::system, "", 1}}});
  CHECK(ask.wants[0].owner == "news/5");
  CHECK(ask.wants[0].tokens == 2);
  CHECK(ask.wants[1].owner == "");  // no owner
  CHECK(ask.wants[1].tokens == 1);
  AcquireBlocks reported{3};
  reported.retention.elsewhere = {{{}, 9}};
  CHECK(b.say(cache, reported).retention.elsewhere[0].tokens == 2);
}

TEST_CASE("model actor: Forget reaches only the model's blocks, and never more than requested") {
  using namespace model_actor_test;
  Bench b;
  const auto all = b.say(meta, Forget{SegmentKind::item, "5"});
  CHECK(all.owner == "news/5");
  CHECK(all.below == 0);
  const auto some = b.say(meta, Forget{.kind = SegmentKind::user, .owner = "ana", .below = 20});
  CHECK(some.below == 3);  // a block of 3 pages may have 20 tokens
  CHECK(b.say(meta, Forget{.kind = SegmentKind::user, .owner = "ana", .below = 3}).below == 1);
}

TEST_CASE("model actor: a core's counts go to its model, except metrics of the whole node") {
  Bench b;
  b.core->counts = true;
  b.probe.receive(0, model_actor_test::server, StatusRequest{});
  CHECK(b.metrics.value(Metric::tokens_total) == 5);
  CHECK(b.probe.counted(Metric::tokens_total) == 0);
  CHECK(b.metrics.value(Metric::protocol_errors) == 0);
  CHECK(b.probe.counted(Metric::protocol_errors) == 7);
  const auto* line = std::get_if<Effects::Log>(&b.probe.effects.list.back());
  REQUIRE(line);
  CHECK(line->fields.back().name == "model");
  CHECK(line->fields.back().value == "news");
}

TEST_CASE("model actor: a status names its model") {
  using namespace model_actor_test;
  Bench b;
  const auto status = b.say(server, StatusReply{1, 1, Role::router, true, {{"policy", "bat"}}});
  CHECK(status.node == 1);
  CHECK(status.fields.back() == StatusField{"model", "news"});
}
