// Book-keeping of pulls (copies of blocks from other nodes' KV-cache workers to this one). It
// bounds how many run in total and from one node, so that neither side is overloaded, and avoids
// nodes that failed or were slow.
#include "actors/kv_worker/pulls.h"

#include <algorithm>
#include <string>

#include "actors/kv_worker/bounds.h"

namespace troupe::actors {

bool Pulls::may_ask(Instant now, NodeId node, std::size_t more) const {
  const auto back_off = back_off_until_.find(node);
  if (back_off != back_off_until_.end() && now < back_off->second) return false;
  return pulls_.size() + more <= bounds_.pulls_max;
}

Pull* Pulls::find(Serial serial) {
  const auto at = pulls_.find(serial);
  return at == pulls_.end() ? nullptr : &at->second;
}

Pull Pulls::take(Serial serial) { return std::move(pulls_.extract(serial).mapped()); }

void Pulls::back_off(Instant now, NodeId node) {
  std::erase_if(back_off_until_, [&](const auto& entry) { return entry.second <= now; });
  back_off_until_[node] = now + bounds_.back_off;
  if (back_off_until_.size() > bounds_.pulls_max)
    back_off_until_.erase(std::min_element(back_off_until_.begin(), back_off_until_.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; }));
}

std::optional<Serial> Pulls::next_to_run(Serial after) const {
  if (running() >= bounds_.running_max) return std::nullopt;
  for (auto at = pulls_.upper_bound(after); at != pulls_.end(); ++at) {
    const Pull& pull = at->second;
    if (pull.stage == Pull::Stage::granted && count_running(pull.node) < bounds_.of_owner_max)
      return at->first;
  }
  return std::nullopt;
}

std::vector<Serial> Pulls::not_running(NodeId node) const {
  std::vector<Serial> found;
  for (const auto& [serial, pull] : pulls_)
    if (pull.node == node && pull.stage != Pull::Stage::running) found.push_back(serial);
  return found;
}

std::size_t Pulls::count_running(std::optional<NodeId> owner) const {
  return static_cast<std::size_t>(std::count_if(pulls_.begin(), pulls_.end(), [&](const auto& entry) {
    const Pull& pull = entry.second;
    return pull.stage == Pull::Stage::running && (!owner || pull.node == *owner);
  }));
}

std::string Pulls::check_bounds() const {
  std::size_t of_one_owner = 0;
  for (const auto& [serial, pull] : pulls_) of_one_owner = std::max(of_one_owner, count_running(pull.node));
  return first_fault({bound_fault("pulls", pulls_.size(), bounds_.pulls_max),
                      bound_fault("pulls running", running(), bounds_.running_max),
                      bound_fault("pulls running from one node", of_one_owner, bounds_.of_owner_max),
                      bound_fault("owners in back-off", back_off_until_.size(), bounds_.pulls_max)});
}

}  // namespace troupe::actors
