#pragma once
// Tracks the members of the cluster for a router or a cache-meta. It starts with what the process
// read before it began, then re-reads the Coordination periodically. It keeps the known members
// while the Coordination cannot be read or contradicts them. A text with one invalid line is
// ignored as a whole, since that line (who has left, say) could change the meaning of the others.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/coordination/members.h"

namespace troupe {

class MemberWatch {
 public:
  struct Nodes {  // by node number
    std::vector<NodeId> workers, routers = {}, cache_metas = {};
  };
  // `file`: nodes of the cluster's file. `every`: interval of reads; 0 = nobody joins or leaves.
  MemberWatch(Nodes file, Duration every, ReadMembers known = {});

  // Call once per heartbeat. Returns true if it started a read as job number `job`.
  bool tick(Instant now, std::uint64_t job, Effects& effects);
  enum class Answer : std::uint8_t { foreign, same, changed };
  Answer on_done(const JobDone& done, Effects& effects);

  const std::vector<NodeId>& workers() const {
    return there_.workers;
  }  // including leaving ones; so are the others
  const std::vector<NodeId>& routers() const { return there_.routers; }
  const std::vector<NodeId>& cache_metas() const { return there_.cache_metas; }
  std::vector<NodeId> staying() const;
  bool is_leaving(NodeId node) const { return known_.members.leaving.contains(node); }
  Revision epoch() const {
    return known_.revision;
  }  // revision it follows; 0 = the file's nodes, as far as known

 private:
  static Answer keep(std::string_view why, Effects& effects);
  Nodes there() const;

  Nodes file_;
  Duration every_;
  ReadMembers known_;
  Nodes there_;
  Revision read_;          // revision read last
  std::uint64_t job_ = 0;  // 0 = no read in flight
  Instant next_;
};

}  // namespace troupe
