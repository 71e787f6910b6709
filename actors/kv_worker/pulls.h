#pragma once
// Tracks the KV-cache worker's pulls: which blocks are requested, granted or being copied from
// which other node. It bounds how many run at once, and backs off from nodes that failed or were
// slow. It does not access the pool and sends no messages; pull_flow.h acts on its answers.
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "actors/kv_worker/kv_worker_timer.h"
#include "runtime/actor/core.h"

namespace troupe::actors {

struct PullEntry {  // a block being pulled from another node
  BlockName name;
  std::uint32_t tokens = 0;
  std::uint64_t generation = 0;  // of the reservation here
  BlockGrant there;
};

struct Pull {  // some blocks from one node
  // The owner was asked to pin the blocks; it has pinned them; the copy runs.
  enum class Stage { asked, granted, running };
  NodeId node = 0;
  Stage stage = Stage::asked;
  Instant asked;
  Instant wait_deadline;  // wait deadline, until the job starts
  Instant late_from;      // wait deadline of the request; a later end counts as slow
  Instant lease_ends;     // set once granted
  Incarnation incarnation = 0;
  bool background = false;  // a background pull: no user's request waits for it
  bool offered = false;     // its node is leaving and offered the blocks
  TraceContext trace;       // of the request that caused the pull
  std::vector<PullEntry> blocks;
};

class Pulls {
 public:
  struct Bounds {
    std::size_t running_max = 4, of_owner_max = 2;  // maximum running jobs: in total, and per owner
    std::size_t pulls_max = 256;
    Duration back_off{1'000'000};  // back-off after a node failed or was slow
  };
  explicit Pulls(Bounds bounds) : bounds_(bounds) {}

  // Returns true if `more` further pulls from `node` stay within the bound of all pulls; never
  // during a back-off from it.
  bool may_ask(Instant now, NodeId node, std::size_t more) const;
  Pull& ask(Serial serial, Pull pull) { return pulls_[serial] = std::move(pull); }
  Pull* find(Serial serial);  // null if the pull has ended
  Pull take(Serial serial);   // the pull must exist

  // Backs off from a node that did not deliver in time: its blocks count as absent, so that
  // requests compute at once instead of waiting first. If too many nodes are in back-off, the one
  // with the shortest remaining time is tried again.
  void back_off(Instant now, NodeId node);

  // Returns the first granted pull after `after` that may run now, in order of the requests.
  std::optional<Serial> next_to_run(Serial after) const;
  // Returns the pulls from `node` whose copy does not run; the caller gives them up if it is lost.
  std::vector<Serial> not_running(NodeId node) const;
  std::size_t running() const { return count_running({}); }
  std::size_t size() const { return pulls_.size(); }
  std::string check_bounds() const;  // "" or the exceeded bound

 private:
  std::size_t count_running(std::optional<NodeId> owner) const;  // all owners if nullopt

  Bounds bounds_;
  std::map<Serial, Pull> pulls_;
  std::map<NodeId, Instant> back_off_until_;
};

}  // namespace troupe::actors
