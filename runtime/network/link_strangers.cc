#include "runtime/network/link_strangers.h"

#include <algorithm>
#include <utility>

namespace troupe::link {

// Evicts one of the matching connections if there are `most`: the oldest that has sent nothing, or
// else the oldest.
template <class Is>
std::string Strangers::make_room(std::size_t most, Is is) {
  if (static_cast<std::size_t>(std::ranges::count_if(here_, is)) < most) return "";
  auto victim = std::ranges::find_if(here_, [&](const Stranger& s) { return is(s) && s.silent; });
  if (victim == here_.end()) victim = std::ranges::find_if(here_, is);
  const Stranger gone = std::move(*victim);
  here_.erase(victim);
  gone.leave();
  return gone.address;
}

std::string Strangers::enter(const std::string& address, Leave leave, Ticket& ticket) {
  const bool known = peers_.contains(address);
  std::string gone = make_room(known ? limits_.of_peer : limits_.of_address,
                               [&](const Stranger& s) { return s.address == address; });
  if (!known && gone.empty()) gone = make_room(limits_.in_all, [](const Stranger& s) { return !s.known; });
  ticket = ++last_;
  here_.push_back({ticket, address, known, true, std::move(leave)});
  return gone;
}

void Strangers::spoke(Ticket ticket, Leave leave) {
  const auto at = std::ranges::find(here_, ticket, &Stranger::ticket);
  if (at == here_.end()) return;
  at->silent = false;
  at->leave = std::move(leave);
}

void Strangers::go(Ticket ticket) {
  std::erase_if(here_, [=](const Stranger& s) { return s.ticket == ticket; });
}

bool Strangers::has(Ticket ticket) const {
  return std::ranges::find(here_, ticket, &Stranger::ticket) != here_.end();
}

}  // namespace troupe::link
