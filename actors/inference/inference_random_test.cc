// Random plans, duplicate messages, silent KV-cache workers, failing devices, versions and drains.
// Every plan has exactly one outcome, on the model to which it is pinned, and every grant is
// released once.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "actors/testing/inference_bench.h"

namespace troupe::actors {
namespace {

using namespace inference_test;

constexpr Address lost_router{9, Role::router};

InferenceConfig small(unsigned seed) {
  InferenceConfig config = Bench::config(1 + seed % 3);
  config.heartbeat = {200};
  config.routers = {1, 9};
  config.incarnation = 1 + seed * 1'000;
  config.model_keep = {300};
  config.models_max = 3;
  config.background_queue_max = 2;
  config.queue_max = 6;
  config.batch_tokens_max = 1'000;
  config.recent_max = 10'000;
  return config;
}

// The world around one worker. The first segment of each plan has as many tokens as the plan's
// number, so that the device can identify it.
struct World {
  unsigned seed;
  std::mt19937 random{seed};
  Bench b{small(seed)};
  std::int64_t now = 0;
  std::map<std::uint64_t, Effects::Start> jobs;  // running
  std::map<RequestId, std::size_t> acquires;     // unanswered: number of wants
  std::map<RequestId, Execute> sent;
  std::map<RequestId, std::int64_t> deadline;
  std::map<RequestId, int> outcomes;
  std::set<RequestId> lost, running;  // plans: router lost; on the device
  std::set<RequestId> failed;         // plans of failed batches of several: may run once more
  std::map<RequestId, int> granted;   // acquisitions with grants, until they are released
  std::set<std::string> models{"m1"};
  std::uint64_t epoch = 0;

  explicit World(unsigned s) : seed(s) {}

  std::string any_model() { return "m" + std::to_string(1 + random() % 4); }

  void take() {
    for (const auto& effect : b.probe.effects.list) {
      if (const auto* start = std::get_if<Effects::Start>(&effect)) take_job(*start);
      if (const auto* send = std::get_if<Effects::Send>(&effect)) take_message(send->message);
    }
    b.probe.effects = {};
    CHECK(b.core.check_bounds() == "");
  }
  void take_message(const Message& message) {
    if (const auto* acquire = std::get_if<AcquireBlocks>(&message))
      acquires[acquire->id] = acquire->wants.size();
    if (const auto* executed = std::get_if<Executed>(&message)) {
      ++outcomes[executed->id];
      CHECK(executed->model_version == pinned(executed->id));
    }
    if (const auto* refused = std::get_if<Refused>(&message)) ++outcomes[refused->id];
    if (const auto* release = std::get_if<ReleaseBlocks>(&message)) granted.erase(release->id);
  }
  void take_job(const Effects::Start& start) {
    jobs.emplace(start.job, start);
    if (const auto* load = std::get_if<LoadModel>(&start.work))
      CHECK_FALSE(models.contains(load->model_version));
    if (const auto* drop = std::get_if<DropModel>(&start.work)) {
      for (const auto& [id, job] : jobs)
        if (const auto* batch = std::get_if<RunBatch>(&job.work))
          CHECK(batch->requests.at(0)->model_version != drop->model_version);
      models.erase(drop->model_version);
    }
    if (const auto* batch = std::get_if<RunBatch>(&start.work)) take_batch(*batch);
  }
  void take_batch(const RunBatch& batch) {
    for (const auto& request : batch.requests) {
      const RequestId id = request->plan.segments.at(0).tokens.size();
      CHECK(request->model_version == pinned(id));
      CHECK(request->model_version == batch.requests[0]->model_version);
      CHECK(models.contains(request->model_version));
      const bool second_run = failed.erase(id) > 0;
      CHECK(running.insert(id).second != second_run);
      if (second_run) CHECK(batch.requests.size() == 1);
      if (sent.at(id).alone) CHECK(batch.requests.size() == 1);
      CHECK(now < deadline.at(id));
    }
  }
  std::string pinned(RequestId id) {
    const std::string& model = sent.at(id).model_version;
    return model.empty() ? "m1" : model;
  }

  void send_plan() {
    const RequestId id = sent.size() + 1;
    Execute plan = Bench::plan(id, {segment(id), block(random() % 5), block(random() % 5)});
    plan.budget_us = static_cast<std::int64_t>(random() % 600);
    if (random() % 4 == 0) plan.priority = Priority::background;
    if (random() % 6 == 0) plan.alone = true;
    if (random() % 3 != 0) plan.model_version = any_model();
    sent[id] = plan;
    deadline[id] = now + plan.budget_us;
    b.probe.receive(now, asker(id), plan);
  }
  static Address asker(RequestId id) { return id % 5 == 0 ? lost_router : router; }
  void send_again() {
    if (sent.empty()) return;
    const RequestId id = 1 + random() % sent.size();
    b.probe.receive(now, asker(id), sent.at(id));
  }
  void answer_acquire() {
    if (acquires.empty()) return;
    const auto [id, wants] =
        *std::next(acquires.begin(), static_cast<std::ptrdiff_t>(random() % acquires.size()));
    if (random() % 4 != 0) acquires.erase(id);  // otherwise it is answered twice
    std::vector<BlockGrant> grants;
    for (std::size_t w = 0; w < wants; ++w) grants.push_back({static_cast<Grant>(random() % 3), 1, 1, {1}});
    granted[id] = 1;
    b.probe.receive(now, kv, acquired(id, grants));
  }
  void end_job() {
    if (jobs.empty()) return;
    const auto at = std::next(jobs.begin(), static_cast<std::ptrdiff_t>(random() % jobs.size()));
    const Effects::Start job = at->second;
    jobs.erase(at);
    if (const auto* batch = std::get_if<RunBatch>(&job.work)) return end_batch(job.job, *batch);
    const auto* load = std::get_if<LoadModel>(&job.work);
    const auto* drop = std::get_if<DropModel>(&job.work);
    const bool fails = random() % 3 == 0;
    if ((load && !fails)) models.insert(load->model_version);
    if ((drop && fails)) models.insert(drop->model_version);
    b.probe.done(now, job.job,
                 fails ? JobResult{Refusal{RefusalKind::unavailable, "no_memory", "", "", ""}}
                       : JobResult{ModelChanged{}});
  }
  void end_batch(std::uint64_t job, const RunBatch& batch) {
    if (random() % 5 == 0) return fail_batch(job, batch);
    BatchDone done;
    for (const auto& request : batch.requests) {
      done.replies.push_back(reply(request->plan.segments.size()));
      if (random() % 8 == 0)
        done.replies.back().refusal = Refusal{RefusalKind::unprocessable, "bad_plan", "", "", ""};
    }
    b.probe.done(now, job, done);
  }
  void fail_batch(std::uint64_t job, const RunBatch& batch) {
    for (const auto& request : batch.requests)
      if (batch.requests.size() > 1) failed.insert(request->plan.segments.at(0).tokens.size());
    b.probe.done(now, job, Refusal{RefusalKind::unavailable, "device_failed", "", "", ""});
  }
  void lose_router() {
    for (const auto& [id, plan] : sent)
      if (asker(id) == lost_router) lost.insert(id);
    b.probe.lose(now, lost_router.node);
  }
  void one_event() {
    switch (random() % 12) {
      case 0:
        return end_job();
      case 1:
        return end_job();
      case 2:
        return send_again();
      case 3:
        return answer_acquire();
      case 4:
        return answer_acquire();
      case 5:
        return b.follow(now, epoch += random() % 2, any_model(), random() % 2 ? any_model() : "");
      case 6:
        return b.probe.receive(now, server, Drain{1, random() % 4 == 0});
      case 7:
        return random() % 20 == 0 ? lose_router() : send_plan();
      default:
        return send_plan();
    }
  }
  void pass(std::int64_t us) {
    for (const std::int64_t till = now + us; now < till;) {
      b.probe.run_until(++now);
      if (!b.probe.effects.list.empty()) take();
    }
  }
  void settle() {
    b.probe.receive(now, server, Drain{1, true});
    take();
    for (int i = 0; i < 200; ++i) {
      pass(100);
      end_job();
      take();
      send_again();
      take();
    }
  }
};

TEST_CASE(
    "inference worker: whatever happens each plan has one outcome, on its model, and each grant one "
    "release") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    World world(seed);
    for (int i = 0; i < 400; ++i) {
      world.pass(world.random() % 60);
      world.one_event();
      world.take();
    }
    world.settle();
    for (const auto& [id, plan] : world.sent) {
      CAPTURE(id);
      const int outcomes = world.outcomes[id];
      CHECK(outcomes <= 1);
      CHECK((outcomes == 1 || world.lost.contains(id)));
    }
    CHECK(world.granted.empty());
    CHECK(world.b.core.tasks() == 0);
    CHECK(!world.running.empty());
  }
}

}  // namespace
}  // namespace troupe::actors
