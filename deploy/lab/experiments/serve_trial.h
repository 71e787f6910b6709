#pragma once
// A cluster that serves a request trace at its times, simulated: what `troupe plan --serve` tries with more
// and fewer nodes. The simulated world computes its users and items from their numbers, so those of the trace
// are numbered in the order in which they come: who asks for what, how often, when and with which history is
// the trace's.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "deploy/lab/traces/numbered_names.h"
#include "deploy/planning/capacity.h"
#include "runtime/actor/traced_request.h"

namespace troupe::deploy {

struct TrialOptions {
  std::filesystem::path trace;
  double speed = 1;            // times as fast as it was
  std::uint64_t requests = 0;  // so many of its first ones; 0: all
  std::string shape = "qwen2-1.5b", link = "100gbps", policy = "bat";
  std::uint32_t item_tokens = 10;  // of each item, in histories and as a candidate
  std::uint64_t memory_bytes = 0;  // of each node, for keys and values
  double item_share = 0.5;         // of that, for items; pool.item_share
  std::uint64_t seed = 1;
  bool all_judged = false;  // else the second half, and so the trace has to last for some seconds
};

// One pass over the trace, since the world has to know how much it holds.
class ServedTrace {
 public:
  // Throws ImportError for what is no trace of rankings, or lasts too short.
  explicit ServedTrace(const TrialOptions& options);

  std::uint64_t requests() const { return requests_; }
  std::uint32_t users() const { return users_; }
  std::uint32_t items() const { return items_->size(); }
  std::uint32_t tenants() const { return tenants_->size(); }
  double seconds() const { return seconds_; }
  double candidates_mean() const { return candidates_ / static_cast<double>(requests_); }
  double events_mean() const {
    return events_ / static_cast<double>(requests_);
  }  // of the histories, at each request
  std::uint32_t events_most() const { return events_most_; }
  std::uint32_t candidates_most() const { return candidates_most_; }
  // Again, with the world's names, counted from `begin` on.
  TracedRequests replay(Instant begin) const;

 private:
  TrialOptions options_;
  std::shared_ptr<NumberedNames> items_, tenants_;
  std::uint64_t requests_ = 0;
  std::uint32_t users_ = 0, events_most_ = 0, candidates_most_ = 0;
  double candidates_ = 0, events_ = 0, seconds_ = 0;  // sums over the requests
};

// So many of these nodes, each with all roles; judged is the second half of the trace, the first fills the
// caches. Throws std::invalid_argument for options that make no sense, std::logic_error if a promise is
// broken.
CapacityTrial try_serving(const ServedTrace& trace, const TrialOptions& options, const NodeType& type,
                          std::uint32_t nodes);

// The mean request, alone on such a node with nothing cached, takes so long to compute.
double alone_ms(const ServedTrace& trace, const TrialOptions& options, const NodeType& type);

}  // namespace troupe::deploy
