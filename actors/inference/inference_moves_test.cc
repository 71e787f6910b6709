// A plan is not copied on its way from its message to the device, nor its scores on their way back.
#include <doctest/doctest.h>

#include <algorithm>

#include "actors/testing/inference_bench.h"

namespace troupe::actors {
namespace inference_moves_test {

using namespace inference_test;

// Addresses of the parts of a plan in memory.
struct Location {
  const void *segments, *features, *readouts, *rows, *allowed, *blocks;
  bool operator==(const Location&) const = default;
};
Location location(const Plan& plan, const std::vector<SegmentBlock>& blocks) {
  return {plan.segments.data(),       plan.segments.at(0).features.data(),
          plan.readouts.data(),       plan.readouts.at(0).rows.data(),
          plan.search.allowed.data(), blocks.data()};
}
Location location(const BatchRequest& request) { return location(request.plan, request.blocks); }

struct MoveBench : Bench {
  Location send(std::int64_t us, RequestId id, const std::vector<PlanPart>& parts) {
    Execute execute = plan(id, parts);
    execute.plan.segments[0].features = {1, 2, 3};
    execute.plan.search.allowed = {{1, 2}};
    const Location before = location(execute.plan, execute.blocks);
    probe.receive(us, router, std::move(execute));
    return before;
  }
};

TEST_CASE(
    "inference moves: the plan of a batch of one is the plan of the message, and its pages are the grant's") {
  MoveBench b;
  const Location sent = b.send(0, 1, {block(1), segment(2)});
  std::vector<BlockGrant> grants{{Grant::read, 4, 55, {9, 8, 7}}};
  const std::uint32_t* const pages = grants[0].pages.data();
  b.probe.receive(1, kv, acquired(b.probe.sent<AcquireBlocks>().at(0).id, std::move(grants)));
  const RunBatch batch = b.job().second;
  REQUIRE(batch.requests.size() == 1);
  CHECK(location(*batch.requests[0]) == sent);
  CHECK(batch.requests[0]->kv.at(0).pages.data() == pages);
}

TEST_CASE(
    "inference moves: the plans of a batch of three are those of the messages, also when they run again") {
  MoveBench b;
  b.plain(0, 1);
  const auto first = b.job();
  std::vector<Location> sent;
  for (const RequestId id : {2, 3, 4}) sent.push_back(b.send(1, id, {segment(2)}));
  b.run(2, first);
  const auto three = b.job();
  REQUIRE(three.second.requests.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(location(*three.second.requests[i]) == sent[i]);
  b.probe.done(3, three.first, Refusal{RefusalKind::unavailable, "device_failed"});
  const auto again = b.job();
  REQUIRE(again.second.requests.size() == 1);
  CHECK(location(*again.second.requests[0]) == sent[0]);
}

TEST_CASE("inference moves: readouts and beams of the answer are those of the device") {
  MoveBench b;
  b.plain(0, 1);
  BatchDone done{{reply(1)}, 1};
  done.replies[0].beams = {{{1, 2, 3}}};
  const void* const scores = done.replies[0].readouts.at(0).scores.data();
  const void* const path = done.replies[0].beams[0].path.data();
  b.probe.done(1, b.job().first, std::move(done));
  const auto sends_answer = [](const Effects::Effect& effect) {
    const auto* send = std::get_if<Effects::Send>(&effect);
    return send && std::holds_alternative<Executed>(send->message);
  };
  const auto answer = std::ranges::find_if(b.probe.effects.list, sends_answer);
  REQUIRE(answer != b.probe.effects.list.end());
  const auto& executed = std::get<Executed>(std::get<Effects::Send>(*answer).message);
  CHECK(executed.readouts.at(0).scores.data() == scores);
  CHECK(executed.beams.at(0).path.data() == path);
}

}  // namespace inference_moves_test
}  // namespace troupe::actors
