#include "sim/cluster/host_charge.h"

#include <doctest/doctest.h>

#include "runtime/testing/batch_of.h"

using namespace troupe;
using namespace troupe::sim;
using placement::HostComponent;

namespace {

Event from_outside(Message message) { return Received{{1, Role::server}, std::move(message)}; }

}  // namespace

TEST_SUITE("host charge") {
  TEST_CASE(
      "host charge: each component is charged once per request by its inputs; fractions of microseconds are "
      "kept") {
    placement::HostWork work;
    work[HostComponent::server] = {10.25, 0, 0, 0};
    work[HostComponent::router] = {5, 1, 0.5, 0};
    work[HostComponent::cache_meta] = {0, 0, 2, 0};
    work[HostComponent::kv_worker] = {3, 0, 1, 0};
    HostCharge charge(work, 1'024);
    RankRequest rank;
    rank.candidates = {"a", "b", "c"};
    CHECK(charge.step(1, from_outside(rank)) == Duration{18});
    CHECK(charge.step(1, from_outside(LookupBlocks{.blocks = std::vector<BlockQuery>(4)})) == Duration{8});
    CHECK(charge.step(1, from_outside(AcquireBlocks{.wants = std::vector<BlockWant>(2)})) == Duration{5});
    CHECK(charge.step(1, TimerFired{1}) == Duration{0});
    for (int i = 0; i < 3; ++i) charge.step(1, from_outside(rank));
    CHECK(charge.used_us()[0] == doctest::Approx(41));
    CHECK(charge.units().requests == 4);
    CHECK(charge.units().parts == 12);
  }

  TEST_CASE(
      "host charge: a batch costs by its blocks and by the bytes of the checksums, written or "
      "checked") {
    placement::HostWork work;
    work[HostComponent::executor_port] = {0, 0, 2, 0};
    work[HostComponent::checksums] = {0, 0, 0, 1'000};
    HostCharge charge(work, 1 << 20);
    BatchRequest request;
    for (int s = 0; s < 4; ++s) request.plan.segments.push_back({SegmentKind::item, Tokens{1, 2, 3}, 0, {}});
    request.kv.resize(4);
    request.kv[0].grant = request.kv[1].grant = Grant::read;
    request.kv[1].check = true;
    request.kv[2].grant = Grant::write;
    CHECK(charge.batch(1, batch_of({request}), {0}) == Duration{3 * 2 + 6'000});
    CHECK(charge.units().mebibytes == 6);
    CHECK(charge.units().cold == 0);
  }

  TEST_CASE(
      "host charge: other components' work on computed blocks is charged at the batch's end; a batch "
      "costs more the longer its executor was idle") {
    placement::HostWork work;
    work[HostComponent::kv_worker].kept = 5;
    work[HostComponent::cache_meta].kept = 2;
    work[HostComponent::passes] = {.kept = 10, .cold = 100};
    HostCharge charge(work, 1'024);
    BatchRequest request;
    for (int s = 0; s < 3; ++s) request.plan.segments.push_back({SegmentKind::item, Tokens{1}, 0, {}});
    request.kv.resize(3);
    request.kv[0].grant = Grant::read;
    request.kv[1].grant = request.kv[2].grant = Grant::write;
    CHECK(charge.batch(1, batch_of({request}), {0}) == Duration{20});
    CHECK(charge.batch(1, batch_of({request}), {1'000}) == Duration{20 + 50});
    CHECK(charge.batch(1, batch_of({request}), {99'000}) == Duration{20 + 99});
    CHECK(charge.step(1, JobDone{1, ModelChanged{}}) == Duration{0});
    CHECK(charge.step(2, JobDone{1, BatchDone{}}) == Duration{0});  // another node's batch
    CHECK(charge.step(1, JobDone{1, BatchDone{}}) == Duration{6 * 7});
    CHECK(charge.step(1, JobDone{2, BatchDone{}}) == Duration{0});
    charge.batch(1, batch_of({request}), {0});
    CHECK(charge.step(1, JobDone{3, Refusal{}}) == Duration{0});  // nothing was kept
    CHECK(charge.step(1, JobDone{4, BatchDone{}}) == Duration{0});
    CHECK(charge.units().kept == 8);
    CHECK(charge.units().cold == doctest::Approx(0.5 + 0.99));
  }
}
