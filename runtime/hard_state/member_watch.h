#pragma once
// What a router or a cache-meta knows of who the workers are: those of the file at first, then what the Coordination says, which is
// read again and again. As long as it cannot be read, what was known stays.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/hard_state/members.h"

namespace troupe {

class MemberWatch {
 public:
  // `every`: so long between two reads; 0: nobody joins or leaves.
  MemberWatch(std::vector<NodeId> workers, Duration every);

  // Once per heartbeat. True if it asked, with that job's number.
  bool tick(Instant now, std::uint64_t job, Effects& effects);
  enum class Answer : std::uint8_t { foreign, same, changed };
  Answer on_done(const Done& done, Effects& effects);

  const std::vector<NodeId>& workers() const { return workers_; }  // by number, with those that leave
  std::vector<NodeId> staying() const;
  bool is_leaving(NodeId node) const { return members_.leaving.contains(node); }
  Revision epoch() const { return epoch_; }  // 0: the file's nodes, as far as known

 private:
  std::vector<NodeId> file_, workers_;
  Duration every_;
  Members members_;
  Revision epoch_ = 0;
  std::uint64_t job_ = 0;  // 0: none is open
  Instant next_;
};

}  // namespace troupe
