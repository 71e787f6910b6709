#pragma once
// The KV-cache worker's pulls: what is asked for, granted or being copied from which other node, how many may
// run at once, and which nodes are left alone for a while because they failed or were slow. It knows no pool
// and sends nothing; the core does what it says.
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe::actors {

struct ComingBlock {  // from another node
  BlockName name;
  std::uint32_t tokens = 0;
  std::uint64_t generation = 0;  // of the reservation here
  BlockGrant there;
};

struct Pull {  // some blocks from one node
  enum class Stage { asked, granted, running };
  NodeId node = 0;
  Stage stage = Stage::asked;
  Instant asked;
  Instant patience_ends;  // until the job starts
  Instant late_from;      // the end of the asking request's patience
  Instant lease_ends;     // once granted
  Incarnation incarnation = 0;
  bool ahead = false;    // no request asked for it
  bool offered = false;  // its node leaves, and so offered it
  TraceContext trace;    // of the request that asked
  std::vector<ComingBlock> blocks;
};

class Pulls {
 public:
  using Serial = std::uint64_t;  // also the id of the question and of the job
  struct Bounds {
    std::size_t running_max = 4, of_owner_max = 2;  // jobs, in all and of one owner
    std::size_t pulls_max = 256;
    Duration rest{1'000'000};  // nothing is pulled for so long from a node that failed or was slow
  };
  explicit Pulls(Bounds bounds) : bounds_(bounds) {}

  // From that node, beside `more` that are about to be asked for?
  bool may_ask(Instant now, NodeId node, std::size_t more) const;
  Pull& ask(Serial serial, Pull pull) { return pulls_[serial] = std::move(pull); }
  Pull* find(Serial serial);  // null: it is over
  Pull take(Serial serial);   // it is there

  // Blocks of a node that does not give them in time are as good as absent: their requests compute at once
  // instead of waiting first. Of too many such nodes the one that rests the shortest is tried again.
  void rest(Instant now, NodeId node);

  // Granted ones that may run now, in order of the questions: the first after `after`.
  std::optional<Serial> next_to_run(Serial after) const;
  std::vector<Serial> not_running(NodeId node) const;
  std::size_t running() const { return count_running({}); }
  std::size_t size() const { return pulls_.size(); }
  std::string check_bounds() const;  // empty, or what exceeds its bound

 private:
  std::size_t count_running(std::optional<NodeId> owner) const;  // of all, if none

  Bounds bounds_;
  std::map<Serial, Pull> pulls_;
  std::map<NodeId, Instant> rests_until_;
};

}  // namespace troupe::actors
