// Keeps the peers that a node can pull pages from, and the pulls that are running. When a peer
// is lost or the process stops, it ends the pulls concerned.
#include "runtime/transfer/pull_table.h"

#include <utility>

namespace troupe {
namespace {

Refusal lost(NodeId node) {
  return pull_refused("peer_lost", node, "is gone or cannot be reached", "a peer that lives");
}
Refusal stopped() {
  return {RefusalKind::unavailable, "transport_stopped", "this process is stopping", "transfer of pages",
          "a running process"};
}

}  // namespace

void PullTable::meet(NodeId node, Incarnation incarnation, Bytes address) {
  std::lock_guard lock(mutex_);
  Peer& peer = peers_[node];
  if (incarnation < peer.incarnation) return;
  end_before(node, incarnation);
  peer = {incarnation, std::move(address), false};
}

// Keeps the number of an incarnation lost before it was met, so that an older one is not accepted.
void PullTable::lose(NodeId node, Incarnation incarnation) {
  std::lock_guard lock(mutex_);
  Peer& peer = peers_[node];
  if (incarnation < peer.incarnation) return;
  end_before(node, incarnation + 1);
  peer = {incarnation, {}, true};
}

void PullTable::end_before(NodeId node, Incarnation limit) {
  for (const auto& pull : running_)
    if (pull->node() == node && pull->incarnation() < limit) pull->end(lost(node));
}

std::optional<Refusal> PullTable::reject_if_invalid(const PullBlocks& work) const {
  if (stopped_) return stopped();
  const auto at = peers_.find(work.node);
  if (at == peers_.end())
    return pull_refused("peer_unknown", work.node, "is unknown", "a node of this cluster");
  const Peer& peer = at->second;
  if (peer.incarnation != work.incarnation)
    return pull_refused("wrong_incarnation", work.node,
                        "is known as incarnation " + std::to_string(peer.incarnation),
                        "incarnation " + std::to_string(work.incarnation));
  if (peer.lost) return lost(work.node);
  if (peer.address.empty())
    return pull_refused("peer_unreachable", work.node, "gave no readable address",
                        "the same transfer.transport on all nodes, in the same version");
  return std::nullopt;
}

std::variant<PullTable::Open, Refusal> PullTable::open(const PullBlocks& work) {
  for (std::size_t i = 0; work.parts > 1 && i < work.blocks.size(); ++i)
    arena_.arrivals().begin(work.blocks[i].here);
  if (auto fault = IncomingPull::reject_if_invalid(work, arena_)) return refused(work, 0, std::move(*fault));
  std::lock_guard lock(mutex_);
  if (auto fault = reject_if_invalid(work)) return refused(work, 0, std::move(*fault));
  Open open{std::make_shared<IncomingPull>(next_id_++, work, arena_), peers_.at(work.node).address};
  running_.insert(open.pull);
  return open;
}

std::variant<PullResult, Refusal> PullTable::await(const PullBlocks& work, IncomingPull& pull) const {
  PullResult pulled;
  // Blocks arrive in order, and none counts unless all have arrived: the last one is waited for.
  if (!work.blocks.empty())
    if (auto refusal = pull.await(work.blocks.size() - 1)) return refused(work, 0, std::move(*refusal));
  for (std::size_t i = 0; i < work.blocks.size(); ++i) {
    pulled.ok.push_back(pull.checksum(i) == work.blocks[i].checksum);
    if (work.parts > 1) arena_.arrivals().end(work.blocks[i].here, pulled.ok.back());
  }
  return pulled;
}

// Marks blocks from index `first` on as failed in PageArrivals and returns the refusal.
Refusal PullTable::refused(const PullBlocks& work, std::size_t first, Refusal refusal) const {
  for (std::size_t i = first; work.parts > 1 && i < work.blocks.size(); ++i)
    arena_.arrivals().end(work.blocks[i].here, false);
  return refusal;
}

void PullTable::close(const std::shared_ptr<IncomingPull>& pull) {
  std::lock_guard lock(mutex_);
  running_.erase(pull);
  closed_.notify_all();
}

void PullTable::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (const auto& pull : running_) pull->end(stopped());
}

void PullTable::await_closed() {
  std::unique_lock lock(mutex_);
  closed_.wait(lock, [&] { return running_.empty(); });
}

}  // namespace troupe
