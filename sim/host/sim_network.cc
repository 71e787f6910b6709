// Decides when messages and bulk transfers between simulated nodes arrive, or that they are lost.
// Draws come from the sender's own stream, so a fault on one link leaves other links unchanged.
#include "sim/host/sim_network.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe {
namespace {

void count_down(auto& counts, auto key, const char* what) {
  const auto at = counts.find(key);
  TROUPE_CHECK(at != counts.end(), what);
  if (--at->second == 0) counts.erase(at);
}

void check_link(const SimNetwork::Link& link) {
  TROUPE_CHECK(Duration{0} <= link.latency_min && link.latency_min <= link.latency_max,
               "a link's latency range must satisfy 0 <= min <= max");
  TROUPE_CHECK(link.bytes_per_us > 0 && Duration{0} <= link.reorder_max,
               "a link needs a positive bandwidth and a non-negative reorder delay");
}

}  // namespace

void SimNetwork::set_default(const Link& link) {
  check_link(link);
  default_ = link;
}

void SimNetwork::set_link(NodeId from, NodeId to, const Link& link) {
  check_link(link);
  links_[pair(from, to)] = link;
}

void SimNetwork::clear_link(NodeId from, NodeId to) { links_.erase(pair(from, to)); }

const SimNetwork::Link& SimNetwork::link(NodeId from, NodeId to) const {
  if (links_.empty()) return default_;
  const auto at = links_.find(pair(from, to));
  return at == links_.end() ? default_ : at->second;
}

void SimNetwork::cut(NodeId from, NodeId to) { ++cuts_[pair(from, to)]; }
void SimNetwork::mend(NodeId from, NodeId to) {
  count_down(cuts_, pair(from, to), "only a direction that was cut can be mended");
}
void SimNetwork::isolate(NodeId node) { ++isolated_[node]; }
void SimNetwork::rejoin(NodeId node) { count_down(isolated_, node, "only an isolated node can rejoin"); }

bool SimNetwork::is_cut(NodeId from, NodeId to) const {
  if (from == to) return false;
  if (!isolated_.empty() && (isolated_.contains(from) || isolated_.contains(to))) return true;
  return !cuts_.empty() && cuts_.contains(pair(from, to));
}

SimNetwork::Card& SimNetwork::card(NodeId node) {
  const auto [at, made] = cards_.try_emplace(node);
  if (made) at->second.random = RandomStream(seed_, node);
  return at->second;
}

// Queues `bytes` behind what the sender's network card still has to send. Returns when the last
// byte has left.
Instant SimNetwork::leave(Card& card, Instant now, const Link& link, std::uint64_t bytes) {
  const auto cost_ns = static_cast<std::int64_t>(static_cast<double>(bytes) * 1000 / link.bytes_per_us);
  card.free_ns = std::max(card.free_ns, now.us * 1000) + cost_ns;
  return {card.free_ns / 1000};
}

// Every message uses the same number of draws, whatever happens to it. A fault on one link therefore does
// not change the draws for the sender's other messages.
void SimNetwork::carry(Instant now, NodeId from, NodeId to, std::uint64_t bytes,
                       std::vector<Instant>& arrivals) {
  arrivals.clear();
  const Link& way = link(from, to);
  Card& sender = card(from);
  const Instant left = leave(sender, now, way, bytes);
  RandomStream& random = sender.random;
  const bool lost = random.happens(way.lose_ppm), doubled = random.happens(way.double_ppm),
             reordered = random.happens(way.reorder_ppm);
  const Duration first = random.between(way.latency_min, way.latency_max);
  const Duration second = random.between(way.latency_min, way.latency_max);
  const Duration late = random.between({0}, way.reorder_max);
  if (lost || is_cut(from, to)) return;
  arrivals.push_back(left + first + (reordered ? late : Duration{0}));
  if (doubled) arrivals.push_back(left + second);
}

// Returns how long a copy of `bytes` takes, or nullopt if either direction is cut. A one-sided read
// needs both. Copies are never lost, doubled or reordered.
std::optional<Duration> SimNetwork::transfer(Instant now, NodeId from, NodeId to, std::uint64_t bytes) {
  const Link& way = link(from, to);
  Card& sender = card(from);
  const Duration latency = sender.random.between(way.latency_min, way.latency_max);
  if (is_cut(from, to) || is_cut(to, from)) return std::nullopt;
  return (leave(sender, now, way, bytes) + latency) - now;
}

}  // namespace troupe
