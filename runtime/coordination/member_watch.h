#pragma once
// What a router or a cache-meta knows of who is in its cluster: at first what its process read before it
// began, then what the Coordination says, which is read again and again. As long as it cannot be read, or
// says what cannot come after what was known, that stays. A text of which one line makes no sense is left as
// a whole: what that line may say, such as who has left, changes the others.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/coordination/members.h"

namespace troupe {

class MemberWatch {
 public:
  struct Nodes {  // by number
    std::vector<NodeId> workers, routers = {}, cache_metas = {};
  };
  // `file`: its nodes. `every`: so long between two reads; 0: nobody joins or leaves.
  MemberWatch(Nodes file, Duration every, ReadMembers known = {});

  // Once per heartbeat. True if it asked, with that job's number.
  bool tick(Instant now, std::uint64_t job, Effects& effects);
  enum class Answer : std::uint8_t { foreign, same, changed };
  Answer on_done(const Done& done, Effects& effects);

  const std::vector<NodeId>& workers() const {
    return there_.workers;
  }  // with those that leave, and so of the others
  const std::vector<NodeId>& routers() const { return there_.routers; }
  const std::vector<NodeId>& cache_metas() const { return there_.cache_metas; }
  std::vector<NodeId> staying() const;
  bool is_leaving(NodeId node) const { return known_.members.leaving.contains(node); }
  Revision epoch() const {
    return known_.revision;
  }  // of what it follows; 0: the file's nodes, as far as known

 private:
  static Answer keep(std::string_view why, Effects& effects);
  Nodes there() const;

  Nodes file_;
  Duration every_;
  ReadMembers known_;
  Nodes there_;
  Revision read_;          // the last
  std::uint64_t job_ = 0;  // 0: none is open
  Instant next_;
};

}  // namespace troupe
