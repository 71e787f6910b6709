// Reports the workers that this router does not hear.
#include "router/fleet/lost_workers.h"

#include <algorithm>
#include <utility>

namespace troupe::router {
namespace {

constexpr std::size_t described_max = 8;

}  // namespace

void LostWorkers::report(Step step, NodeId node, Worker& worker) const {
  worker.log.lasts(
      step, {{"node", node},
             {"why", worker.disconnected ? "its process or the connection to it is gone" : "it is silent"}});
}

void LostWorkers::lose(Step step, NodeId node, const MemberWatch& members) {
  if (members.is_leaving(node)) return;
  Worker& worker = workers_[node];
  worker.disconnected = true;
  report(step, node, worker);
}

void LostWorkers::find(Step step, NodeId node, const WorkerTable& workers) {
  if (workers.alive(step.now, node)) {
    const auto missed = workers_.find(node);
    if (missed == workers_.end()) return;
    missed->second.log.ended(step, {{"node", node}});
    missed->second.disconnected = false;
    missed->second.since.reset();
    return;
  }
  Worker& worker = workers_[node];
  if (!worker.since) worker.since = step.now;
  const bool was_heard = workers.last_heard(node)->incarnation != 0;
  if (!was_heard && step.now < *worker.since + start_time) return;
  lost_.push_back(node);
  report(step, node, worker);
}

void LostWorkers::tick(Step step, const WorkerTable& workers, const MemberWatch& members) {
  const std::size_t before = lost_.size();
  std::vector<NodeId> expected;
  for (const NodeId node : workers.nodes())
    if (!members.is_leaving(node)) expected.push_back(node);
  std::ranges::sort(expected);
  std::erase_if(workers_,
                [&](const auto& worker) { return !std::ranges::binary_search(expected, worker.first); });
  lost_.clear();
  for (const NodeId node : expected) find(step, node, workers);
  all_ = expected.size();
  if (lost_.size() != before) step.effects.count(Metric::workers_lost, static_cast<double>(lost_.size()));
}

std::string LostWorkers::describe() const {
  if (lost_.empty()) return "";
  std::string text = std::to_string(lost_.size()) + " of " + std::to_string(all_) +
                     (all_ == 1 ? " worker is lost" : " workers are lost");
  for (std::size_t i = 0; i < std::min(lost_.size(), described_max); ++i)
    text += (i == 0 ? ": node " : ", node ") + std::to_string(lost_[i]);
  return lost_.size() > described_max ? text + ", …" : text;
}

}  // namespace troupe::router
