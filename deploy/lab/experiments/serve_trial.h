#pragma once
// Simulates a cluster that serves a request trace at its times; `troupe-lab plan --serve` tries it with
// different numbers of nodes. The simulated world computes its users and items from their numbers, so the
// trace's users and items are numbered in order of appearance. Which user requests which items, when and with
// which history comes from the trace.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "deploy/lab/planning/capacity.h"
#include "deploy/lab/traces/numbered_names.h"
#include "runtime/actor/traced_request.h"

namespace troupe::deploy {

struct TrialOptions {
  std::filesystem::path trace;
  double speed = 1;            // speed-up of the trace's times
  std::uint64_t requests = 0;  // first requests of the trace to use; 0 = all
  std::string shape = "qwen2-1.5b", link = "100gbps", policy = "planner";
  // Arrangements that the model's form declares and lists as interchangeable, separated by commas.
  std::string arrangements = "item_first,user_first";
  std::uint32_t item_tokens = 10;    // tokens of each item, in histories and as a candidate
  std::uint64_t memory_bytes = 0;    // of each node, for keys and values
  std::optional<double> item_share;  // share of that memory for items (pool.item_share); unset = auto
  std::uint64_t seed = 1;
  bool all_judged = false;  // judge the whole trace; false = its second half, so it must last some seconds
};

// Sizes of a trace, from one pass over it. The simulated world needs them before it starts.
class ServedTrace {
 public:
  // Throws ImportError if the file is not a trace of rankings or is too short.
  explicit ServedTrace(const TrialOptions& options);

  std::uint64_t requests() const { return requests_; }
  std::uint32_t users() const { return users_; }
  std::uint32_t items() const { return items_->size(); }
  std::uint32_t tenants() const { return tenants_->size(); }
  double seconds() const { return seconds_; }
  double candidates_mean() const { return candidates_ / static_cast<double>(requests_); }
  // Mean number of history events at a request.
  double events_mean() const { return events_ / static_cast<double>(requests_); }
  std::uint32_t events_most() const { return events_most_; }
  std::uint32_t candidates_most() const { return candidates_most_; }
  // Returns the trace's requests with the world's names; times are counted from `begin` on.
  TracedRequests replay(Instant begin) const;

 private:
  TrialOptions options_;
  std::shared_ptr<NumberedNames> items_, tenants_;
  std::uint64_t requests_ = 0;
  std::uint32_t users_ = 0, events_most_ = 0, candidates_most_ = 0;
  double candidates_ = 0, events_ = 0, seconds_ = 0;  // sums over the requests
};

// Simulates `nodes` nodes of `type`, each with all roles. The first half of the trace fills the caches, and
// the second half is judged. Throws std::invalid_argument for invalid options, and std::logic_error if a
// promise is broken.
CapacityTrial try_serving(const ServedTrace& trace, const TrialOptions& options, const NodeType& type,
                          std::uint32_t nodes);

// Returns the time to compute the mean request alone on such a node with an empty cache, in ms.
double alone_ms(const ServedTrace& trace, const TrialOptions& options, const NodeType& type);

}  // namespace troupe::deploy
