#pragma once
// What both transports share on the reader's side: who the peers are, which pulls run, and how each of them
// ends. It carries no byte; a transport opens a pull here, moves its bytes, and closes it.
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <variant>

#include "kernels/base/check.h"
#include "runtime/actor/ports.h"
#include "runtime/pool/page_arena.h"
#include "runtime/transfer/incoming_pull.h"

namespace troupe {

// Thread-safe.
class PullDesk {
 public:
  // Pulls are numbered from its own incarnation on, so that answers to an earlier process's find none.
  PullDesk(Incarnation self, PageArena& arena) : arena_(arena), next_id_(self) {
    TROUPE_CHECK(self > 0, "who pulls is a process with an incarnation");
  }

  // As Transport says. An empty address: known, but it cannot be reached.
  void meet(NodeId node, Incarnation incarnation, Bytes address);
  void lose(NodeId node, Incarnation incarnation);

  struct Open {
    std::shared_ptr<IncomingPull> pull;
    Bytes address;
  };
  std::variant<Open, Refusal> open(const PullBlocks& work);
  // Waits for the blocks, one after the other, and compares their checksums. Of work in parts the arena's
  // PageArrivals are told how each has ended, here or where it was not opened.
  std::variant<Pulled, Refusal> await(const PullBlocks& work, IncomingPull& pull) const;
  // The last thing that a call of `pull` does: afterwards the transport may be gone.
  void close(const std::shared_ptr<IncomingPull>& pull);

  // Ends the running pulls and refuses new ones.
  void stop();
  void await_closed();

 private:
  struct Peer {
    Incarnation incarnation = 0;
    Bytes address;
    bool lost = false;
  };
  std::optional<Refusal> fault_of(const PullBlocks& work) const;
  Refusal refused(const PullBlocks& work, std::size_t first, Refusal refusal) const;
  void end_before(NodeId node, Incarnation limit);

  PageArena& arena_;
  std::mutex mutex_;
  std::condition_variable closed_;
  std::map<NodeId, Peer> peers_;
  std::set<std::shared_ptr<IncomingPull>> running_;
  std::uint64_t next_id_;
  bool stopped_ = false;
};

}  // namespace troupe
