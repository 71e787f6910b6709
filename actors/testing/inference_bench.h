#pragma once
// Test helpers for the inference worker: a worker with small bounds, and short functions for plans
// and replies.
#include <string>
#include <utility>
#include <vector>

#include "actors/inference/inference_core.h"
#include "runtime/testing/core_probe.h"

namespace troupe::actors::inference_test {  // separate from other test benches in this executable

inline constexpr Address router{1, Role::router}, kv{1, Role::kv_worker}, server{1, Role::server};

inline BlockName name(std::uint8_t n) {
  BlockName result;
  result.bytes[0] = n;
  return result;
}
struct PlanPart {
  Segment segment;
  SegmentBlock block;
};
inline PlanPart segment(std::size_t tokens) { return {{SegmentKind::user, Tokens(tokens, 1)}, {}}; }
inline PlanPart block(std::uint8_t n, std::size_t tokens = 4) {
  return {{SegmentKind::item, Tokens(tokens, n)}, {name(n), "item"}};
}
inline BatchReply reply(std::size_t segments, double logit = 0.5) {
  return {std::nullopt, {{{logit}}}, {}, std::vector<std::uint64_t>(segments, 88), {}};
}
inline BlocksAcquired acquired(RequestId id, std::vector<BlockGrant> grants) {
  return {id, 1, 0, std::move(grants)};
}

// Batches of at most 10 tokens; waits of at most 100 us plus 50 us of grace; a budget of 1,000 us;
// no heartbeat during a test. Model "m1" is kept for 5,000 us.
struct Bench {
  InferenceCore core;
  CoreProbe probe{core};

  static InferenceConfig config(std::uint32_t slots) {
    InferenceConfig c;
    c.slots = slots;
    c.heartbeat = {1'000'000};
    c.queue_max = 3;
    c.background_queue_max = 1;
    c.batch_tokens_max = 10;
    c.block_wait = {100};
    c.acquire_grace = {50};
    c.model_version = "m1";
    c.model_keep = {5'000};
    return c;
  }
  explicit Bench(std::uint32_t slots = 1) : Bench(config(slots)) {}
  explicit Bench(InferenceConfig c) : core(std::move(c)) { probe.start(); }

  static Execute plan(RequestId id, const std::vector<PlanPart>& parts) {
    Execute plan;
    plan.id = id;
    plan.budget_us = 1'000;
    for (const PlanPart& part : parts) {
      plan.plan.segments.push_back(part.segment);
      plan.blocks.push_back(part.block);
    }
    plan.plan.readouts = {{0, 0, {5}}};
    plan.retention.evict_first = {name(99)};
    return plan;
  }
  void execute(std::int64_t us, RequestId id, const std::vector<PlanPart>& parts,
               Priority priority = Priority::serving, std::int64_t budget = 1'000) {
    Execute wanted = plan(id, parts);
    wanted.priority = priority;
    wanted.budget_us = budget;
    probe.receive(us, router, wanted);
  }
  void plain(std::int64_t us, RequestId id, std::size_t tokens = 4) { execute(us, id, {segment(tokens)}); }
  void plain_on(std::int64_t us, RequestId id, const std::string& model) {
    Execute wanted = plan(id, {segment(1)});
    wanted.model_version = model;
    probe.receive(us, router, wanted);
  }
  void follow(std::int64_t us, std::uint64_t epoch, std::string active, std::string next = "") {
    probe.receive(us, router, Versions{epoch, std::move(active), "catalog", std::move(next)});
  }
  std::pair<std::uint64_t, RunBatch> job() const { return probe.started<RunBatch>().at(0); }
  // Ends the job with an answer for each of its plans.
  void run(std::int64_t us, const std::pair<std::uint64_t, RunBatch>& job) {
    BatchDone done;
    for (const auto& request : job.second.requests)
      done.replies.push_back(reply(request->plan.segments.size()));
    probe.done(us, job.first, done);
  }
};

}  // namespace troupe::actors::inference_test
