#pragma once
// A ranking or score request between its admission and its one outcome: what it is pinned to, what has become
// known of it, and where its plan was sent. The plan itself is not kept: it is built again from this when it
// is sent again.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "router/fleet/worker_table.h"
#include "router/request/held_blocks.h"
#include "router/request/plan.h"
#include "router/request/policy.h"
#include "runtime/actor/core.h"

namespace troupe::router {

struct Asked {
  Address from;
  RequestId id = 0;
  Instant received, deadline;
};

// The snapshot that a request sees from its admission to its answer (promise 4).
struct Pinned {
  std::string model_version, catalog_version;
  bool operator==(const Pinned&) const = default;
};

struct SentSegment {  // what is remembered of a plan once it is on its way
  SegmentKind kind = SegmentKind::user;
  std::uint32_t tokens = 0;
  bool named = false;
  bool elsewhere = false;  // another node was said to have it
};

// One sending of the plan. A late one may still be answered, and the first answer wins.
struct Attempt {
  enum class State : std::uint8_t { waiting, late, over };
  Ticket ticket;
  Instant late_at;
  bool alone = false;
  bool suspect = false;  // its content had a strike then
  State state = State::waiting;
  bool open() const { return state != State::over; }
};

struct RankWork {
  RankRequest request;
  Policy policy = Policy::bat;
  bool pinned_again = false;
  CatalogPointer catalog;       // where the items lie
  std::vector<ItemView> items;  // the candidates
  FittedHistory history;
  std::optional<HeldBlocks> held;
  Prefix prefix = Prefix::none;
  bool planned = true;  // false until the planner has chosen the prefix with the node
  RankReply reply;      // filled step by step
};
struct ScoreWork {
  ScoreRequest request;
};

enum class Stage : std::uint8_t { features, lookup, executing };

struct Flight {
  std::uint64_t serial = 0;  // its id between router, index and workers
  Asked asked;
  Pinned pinned;
  Stage stage = Stage::features;
  Instant stage_began;
  bool failed_on_device = false;   // from then on it runs alone
  std::uint64_t fingerprint = 0;   // known once the features are
  std::vector<NodeId> candidates;  // workers that were considered at admission
  std::vector<SentSegment> sent;   // the plan's segments
  std::vector<Attempt> attempts;   // each at another node
  std::uint32_t paid = 0;  // attempts but for those after a worker that is draining or has not the model
  std::variant<RankWork, ScoreWork> work;

  Attempt* attempt_at(NodeId node) {  // the latest there
    for (std::size_t i = attempts.size(); i-- > 0;)
      if (attempts[i].ticket.node == node) return &attempts[i];
    return nullptr;
  }
  bool has_open_attempt() const {
    for (const Attempt& attempt : attempts)
      if (attempt.open()) return true;
    return false;
  }
  std::vector<NodeId> tried() const {
    std::vector<NodeId> nodes;
    for (const Attempt& attempt : attempts) nodes.push_back(attempt.ticket.node);
    return nodes;
  }
};

}  // namespace troupe::router
