#pragma once
// Decides while requests are served how many accesses make an item hot, so that its block belongs on
// all workers: Algorithm 1 of BAT (§5.2; placement/assignment/hrcs.h). Everything that it needs is
// measured: the accesses of the latest window, the candidates and tokens of requests, the pace of the
// workers, and how fast blocks of other nodes arrive. Before a pull was measured, the pull share that
// is configured stands for the link.
//
// It decides anew whenever the accesses have doubled since its start, and later after each eighth of
// the window. So a decision follows the same number of requests under any load.
#include <cstddef>
#include <cstdint>
#include <span>

#include "placement/assignment/hrcs.h"
#include "placement/cost/work.h"

namespace troupe::router {

struct ReplicationConfig {
  bool on = false;  // false = RefreshConfig::hot_share stays
  double alpha = placement::ReplicationInput{}.alpha;
  std::uint32_t page_tokens = 1;
  std::uint64_t item_pages = 0;  // pages of each worker's item area
};

// Averages over about the last thousand requests.
class RequestSizes {
 public:
  void note(std::size_t candidates, std::uint64_t item_tokens, std::uint64_t user_tokens);
  double candidates() const { return requests_ > 0 ? candidates_ / requests_ : 0; }        // per request
  double item_tokens() const { return candidates_ > 0 ? item_tokens_ / candidates_ : 0; }  // per candidate
  double user_tokens() const { return requests_ > 0 ? user_tokens_ / requests_ : 0; }      // per request

 private:
  double requests_ = 0, candidates_ = 0, item_tokens_ = 0, user_tokens_ = 0;  // older ones count less
};

struct ServingSpeeds {
  placement::UnitCosts costs;
  placement::Pace pace;            // of the workers, on average
  double pulled_tokens_per_s = 0;  // of blocks from other nodes; 0 = not measured
  double pull_share = 0;           // time of a pull as a share of computing, for a link that is not measured
};

struct ReplicationDecision {
  placement::HotThreshold threshold;  // in accesses of the window
  std::uint64_t accesses = 0;         // in the window at that time; 0 = nothing is decided yet
  double ratio_max = 0;               // largest share of the accesses that may go to other nodes
  double tokens_per_s = 0;            // speed of the link
  bool is_measured = false;           // false = that speed is assumed
  double hot_share() const {          // 0 = no item is hot
    return accesses > 0 ? static_cast<double>(threshold.accesses) / static_cast<double>(accesses) : 0;
  }
};

// Returns the decision for `nodes` workers. An item that is hot has at least HotItemsConfig::uses_min
// accesses. Without accesses, or without requests for items, nothing is decided.
ReplicationDecision decide_replication(const ReplicationConfig& config, const RequestSizes& requests,
                                       const ServingSpeeds& speeds, std::size_t nodes,
                                       std::span<const placement::AccessClass> counted);

class Replication {
 public:
  // `window`: number of accesses that are counted.
  Replication(const ReplicationConfig& config, std::uint32_t window);

  bool is_on() const { return config_.on; }
  void note(std::size_t candidates, std::uint64_t item_tokens, std::uint64_t user_tokens);
  bool is_due() const { return config_.on && accesses_ >= next_at_; }
  // Returns true if something was decided. Then `decision` has it.
  bool decide(const ServingSpeeds& speeds, std::size_t nodes,
              std::span<const placement::AccessClass> counted);
  const ReplicationDecision& decision() const { return decision_; }

 private:
  ReplicationConfig config_;
  std::uint32_t every_;  // accesses between two decisions, later
  std::uint64_t accesses_ = 0, next_at_;
  RequestSizes requests_;
  ReplicationDecision decision_;
};

}  // namespace troupe::router
