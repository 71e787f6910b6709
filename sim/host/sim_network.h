#pragma once
// The network between simulated nodes: what becomes of a message or a bulk transfer that leaves one node for
// another. Links lose, double, delay and reorder; cuts take whole directions away; everything that a node
// sends passes its one network card, one after the other. Nothing is kept per pair of nodes unless somebody
// set it, so a thousand nodes cost a thousand cards. It knows no clock: the caller says what time it is.
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/base/sim_random.h"

namespace troupe {

class SimNetwork {
 public:
  struct Link {
    Duration latency_min{50}, latency_max{500};  // from the sender's card to the receiver, both ends included
    double bytes_per_us = 1250;                  // of the sender's card, for what goes this way
    std::uint32_t lose_ppm = 0, double_ppm = 0, reorder_ppm = 0;  // chances per message
    Duration reorder_max{20'000};  // a reordered message takes up to this much longer
  };

  explicit SimNetwork(std::uint64_t seed) : seed_(seed) {}

  void set_default(const Link& link);
  void set_link(NodeId from, NodeId to, const Link& link);
  void clear_link(NodeId from, NodeId to);  // the default again
  const Link& link(NodeId from, NodeId to) const;

  // One direction, counted: as many mends as cuts make it whole. What is under way when a cut is made
  // arrives.
  void cut(NodeId from, NodeId to);
  void mend(NodeId from, NodeId to);
  // Both directions between this node and every other one; counted apart from the cuts.
  void isolate(NodeId node);
  void rejoin(NodeId node);
  bool is_cut(NodeId from, NodeId to) const;  // never within a node

  // Replaces `arrivals` by the times at which the message comes out: none, one or two of them. A message that
  // is lost or cut off has passed the card all the same.
  void carry(Instant now, NodeId from, NodeId to, std::uint64_t bytes, std::vector<Instant>& arrivals);
  // How long a bulk transfer of bytes that lie at `from` takes, on the same cards; it is neither lost nor
  // doubled. None if one of the two directions is cut now: whoever cares for a cut on the way asks again at
  // its end.
  std::optional<Duration> transfer(Instant now, NodeId from, NodeId to, std::uint64_t bytes);

 private:
  struct Card {
    std::int64_t free_ns = 0;  // when all that it was given has left it
    SimRandom random;
  };
  static std::uint64_t pair(NodeId from, NodeId to) { return std::uint64_t{from} << 32 | to; }
  Card& card(NodeId node);
  static Instant leave(Card& card, Instant now, const Link& link, std::uint64_t bytes);

  std::uint64_t seed_;
  Link default_;
  // None of these is ever iterated.
  std::unordered_map<std::uint64_t, Link> links_;
  std::unordered_map<std::uint64_t, std::uint32_t> cuts_;
  std::unordered_map<NodeId, std::uint32_t> isolated_;
  std::unordered_map<NodeId, Card> cards_;
};

}  // namespace troupe
