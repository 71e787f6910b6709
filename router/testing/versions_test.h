#pragma once
// Test helper: a VersionKeeper and the key of the served versions, as a Coordination would keep it.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "router/fleet/versions.h"

namespace troupe::router::versions_test {

// A version keeper and the key as a Coordination would keep it.
struct Bench {
  WorkerTable workers{{.heartbeat = {100}}, {1, 2}};
  VersionKeeper keeper{{.model_version = "m1", .catalog_version = "c1"}, true, {200'000}, {1'000'000}};
  std::uint64_t next_id = 50;
  Revision revision = 0;
  Revision raised = 0;  // later revisions are larger
  std::string value;
  std::vector<std::string> logged;

  // Last question to the Coordination; job 0 = none.
  struct Question {
    std::uint64_t job = 0;
    Job work;
  };
  std::optional<Question> asked;
  void tick(std::int64_t us = 0) {
    Effects effects;
    keeper.tick({{us}, next_id, effects}, workers);
    take(effects);
  }
  VersionKeeper::Answer answer(JobResult result, std::int64_t us = 0) {
    Effects effects;
    const Question question = *std::exchange(asked, std::nullopt);
    const auto kind = keeper.on_done({{us}, next_id, effects}, question.job, std::move(result), workers);
    take(effects);
    return kind;
  }
  void hear(const Versions& versions) { keeper.hear({0}, versions, workers); }
  // Answers questions until none is left.
  void settle(std::int64_t us = 0) {
    for (int i = 0; i < 10 && asked; ++i) {
      if (std::holds_alternative<FindFeatures>(asked->work)) {
        answer(Features{}, us);
        continue;
      }
      const auto& what = std::get<Coordinate>(asked->work).what;
      bool ok = true;
      if (const auto* write = std::get_if<WriteKey>(&what)) {
        ok = write->expected == revision;
        if (ok) revision = std::max(revision, raised) + 1, value = write->value;
      }
      if (const auto* raise = std::get_if<RaiseRevisions>(&what)) raised = std::max(raised, raise->above);
      answer(CoordinationReply{ok, revision, value}, us);
    }
    CHECK_FALSE(asked.has_value());  // otherwise the questions never end
  }
  void round(std::int64_t us = 0) {
    tick(us);
    settle(us);
  }
  void rumour(std::int64_t us, std::uint64_t epoch) {
    Effects effects;
    keeper.rumour({{us}, next_id, effects}, epoch, workers);
    take(effects);
  }
  std::size_t logs_of(const std::string& event) const {
    return static_cast<std::size_t>(std::ranges::count(logged, event));
  }
  std::uint64_t beats = 0;
  void refuse_load(const std::string& model, std::uint64_t epoch) {
    Heartbeat beat{.incarnation = 3, .sequence = ++beats, .versions_epoch = epoch};
    beat.models = {"m1"};
    beat.refused_model = model;
    beat.refused_why = "no file";
    workers.hear({0}, 2, beat);
  }
  void all_load(const std::string& model) {
    for (const NodeId node : {1, 2}) {
      Heartbeat beat{.incarnation = 3, .sequence = ++beats};
      beat.models = {"m1", model};
      workers.hear({0}, node, beat);
    }
  }
  void take(const Effects& effects) {
    for (const auto& effect : effects.list)
      if (const auto* start = std::get_if<Effects::Start>(&effect)) asked = Question{start->job, start->work};
    for (const auto& effect : effects.list)
      if (const auto* log = std::get_if<Effects::Log>(&effect)) logged.push_back(log->event);
  }
};

}  // namespace troupe::router::versions_test
