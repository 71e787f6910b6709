#pragma once
// Reader's side shared by both transports: known peers, running pulls, and how each pull ends. It
// moves no bytes: a transport opens a pull here, transfers its bytes, and closes it.
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
class PullTable {
 public:
  // Pull numbers start at this process's incarnation, so that replies to an earlier process match
  // none.
  PullTable(Incarnation self, PageArena& arena) : arena_(arena), next_id_(self) {
    TROUPE_CHECK(self > 0, "the pulling process has an incarnation");
  }

  // These are the functions of Transport. An empty address: the peer is known but unreachable.
  void meet(NodeId node, Incarnation incarnation, Bytes address);
  void lose(NodeId node, Incarnation incarnation);

  struct Open {
    std::shared_ptr<IncomingPull> pull;
    Bytes address;
  };
  std::variant<Open, Refusal> open(const PullBlocks& work);
  // Waits for the blocks, one after the other, and compares their checksums. For work in parts it
  // reports each block's end to the arena's PageArrivals; open() does so if it refuses.
  std::variant<PullResult, Refusal> await(const PullBlocks& work, IncomingPull& pull) const;
  // Must be the last step of `pull`: the transport may be destroyed afterwards.
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
  std::optional<Refusal> reject_if_invalid(const PullBlocks& work) const;
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
