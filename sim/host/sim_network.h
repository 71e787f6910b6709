#pragma once
// Network between simulated nodes: decides when a message or bulk transfer between two nodes arrives, if at
// all. Links lose, duplicate, delay and reorder messages; cuts block whole directions. Each node sends
// through one network card, one message after the other. State per pair of nodes exists only where it was
// set, so a thousand nodes need a thousand cards. Callers pass the current time.
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/base/random_stream.h"

namespace troupe {

class SimNetwork {
 public:
  struct Link {
    // Latency from the sender's card to the receiver, both ends included.
    Duration latency_min{50}, latency_max{500};
    double bytes_per_us = 1250;  // bandwidth of the sender's card towards this receiver
    std::uint32_t lose_ppm = 0, double_ppm = 0, reorder_ppm = 0;  // probabilities per message
    Duration reorder_max{20'000};  // maximum extra latency of a reordered message
  };

  explicit SimNetwork(std::uint64_t seed) : seed_(seed) {}

  void set_default(const Link& link);
  void set_link(NodeId from, NodeId to, const Link& link);
  void clear_link(NodeId from, NodeId to);  // restores the default link
  const Link& link(NodeId from, NodeId to) const;

  // Cuts and mends one direction. Cuts are counted: the direction works again after as many mends. Messages
  // in flight when a cut is made still arrive.
  void cut(NodeId from, NodeId to);
  void mend(NodeId from, NodeId to);
  // Cuts both directions between this node and every other one; counted apart from `cut`.
  void isolate(NodeId node);
  void rejoin(NodeId node);
  bool is_cut(NodeId from, NodeId to) const;  // never true within a node

  // Sets `arrivals` to the delivery times of the message: none, one or two. A message that is lost or cut
  // off still occupies the sender's card.
  void carry(Instant now, NodeId from, NodeId to, std::uint64_t bytes, std::vector<Instant>& arrivals);
  // Returns the duration of a bulk transfer of bytes stored at `from`, over the same cards. Bulk transfers
  // are neither lost nor duplicated. nullopt = one of the two directions is cut now. Callers detect a later
  // cut by asking again at the end.
  std::optional<Duration> transfer(Instant now, NodeId from, NodeId to, std::uint64_t bytes);

 private:
  struct Card {                // network card
    std::int64_t free_ns = 0;  // when all accepted bytes have left the card
    RandomStream random;
  };
  static std::uint64_t pair(NodeId from, NodeId to) { return std::uint64_t{from} << 32 | to; }
  Card& card(NodeId node);
  static Instant leave(Card& card, Instant now, const Link& link, std::uint64_t bytes);

  std::uint64_t seed_;
  Link default_;
  // These maps are never iterated.
  std::unordered_map<std::uint64_t, Link> links_;
  std::unordered_map<std::uint64_t, std::uint32_t> cuts_;
  std::unordered_map<NodeId, std::uint32_t> isolated_;
  std::unordered_map<NodeId, Card> cards_;
};

}  // namespace troupe
