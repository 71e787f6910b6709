// Limits the connections of which the sender is not known yet. When the slots are full, a new
// connection takes the slot of the oldest one, silent ones first. Peers' addresses have slots of
// their own, so strangers cannot lock peers out.
#include "runtime/network/unjoined_peers.h"

#include <algorithm>
#include <utility>

namespace troupe::link {

// Evicts one of the matching connections if there are `most`: the oldest that has sent nothing, or
// else the oldest.
template <class Is>
std::string UnjoinedPeers::evict_if_full(std::size_t most, Is is) {
  if (static_cast<std::size_t>(std::ranges::count_if(slots_, is)) < most) return "";
  auto victim = std::ranges::find_if(slots_, [&](const UnjoinedPeer& s) { return is(s) && s.silent; });
  if (victim == slots_.end()) victim = std::ranges::find_if(slots_, is);
  const UnjoinedPeer gone = std::move(*victim);
  slots_.erase(victim);
  gone.leave();
  return gone.address;
}

std::string UnjoinedPeers::add(const std::string& address, Leave leave, Ticket& ticket) {
  const bool known = peers_.contains(address);
  std::string gone = evict_if_full(known ? limits_.of_peer : limits_.of_address,
                                   [&](const UnjoinedPeer& s) { return s.address == address; });
  if (!known && gone.empty())
    gone = evict_if_full(limits_.in_all, [](const UnjoinedPeer& s) { return !s.known; });
  ticket = ++last_;
  slots_.push_back({ticket, address, known, true, std::move(leave)});
  return gone;
}

void UnjoinedPeers::on_first_byte(Ticket ticket, Leave leave) {
  const auto at = std::ranges::find(slots_, ticket, &UnjoinedPeer::ticket);
  if (at == slots_.end()) return;
  at->silent = false;
  at->leave = std::move(leave);
}

void UnjoinedPeers::remove(Ticket ticket) {
  std::erase_if(slots_, [=](const UnjoinedPeer& s) { return s.ticket == ticket; });
}

bool UnjoinedPeers::has(Ticket ticket) const {
  return std::ranges::find(slots_, ticket, &UnjoinedPeer::ticket) != slots_.end();
}

}  // namespace troupe::link
