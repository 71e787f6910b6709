#pragma once
// The requests that hold blocks of the KV-cache worker or wait for some, and the answers that they
// get. A request is kept from the step in which it arrives until its blocks are released; one that
// is answered and holds nothing ends at once. Senders number their requests themselves, so a
// request is also found by its sender and the sender's id for it.
//
// Grants to the inference worker of this node last until they are released, because both are one
// process. KV-cache workers of other nodes get pins with a lease. They count the lease from their
// request; this worker counts it from the request's arrival, and a tenth longer. As long as clocks
// run within 10 % of each other, no page is reused under a reader (promise 3), whatever messages
// are lost. A lost node keeps its pins until then: it may only be cut off.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/kv_worker/kv_worker_config.h"
#include "actors/kv_worker/kv_worker_timer.h"
#include "runtime/actor/core.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

struct Hold {  // state of one want of a request
  Grant grant = Grant::none;
  bool check = false;                // true if the reader verifies the checksum
  bool waiting = false;              // not yet decided
  const PoolBlock* block = nullptr;  // block that is read, and so pinned; else null
  std::uint64_t generation = 0;
  // Generation that it may read, or has read, while in flight, and the owner's checksum; 0 = none.
  std::uint64_t in_flight = 0, in_flight_checksum = 0;
  bool pulled = false;  // true if the request waited until this block came from another node
};

struct Request {
  Address from;
  AcquireBlocks ask;
  std::vector<Hold> holds;  // parallel to its wants
  std::size_t undecided = 0;
  Instant received;
  Duration pulling{};  // from `received` until the last block pulled for this request arrived
  Instant wait_deadline;
  Instant lease_ends;  // for requests of other nodes
  bool announced = false, answered = false;
  bool offered = false;           // true for an offer of a leaving worker; blocks are only pulled
  bool counts = false;            // true if its wants count as hits and misses
  std::uint64_t user = 0;         // owner of its user blocks, as AreaSavings::user_key; 0 = none
  std::uint32_t user_tokens = 0;  // tokens of user blocks that it wants

  bool remote() const { return from.role == Role::kv_worker; }
};

class Requests {
 public:
  Requests(const KvWorkerConfig& config, PagePool& pool);

  bool is_inference_worker(Address address) const;  // of this node
  bool is_full(bool remote) const;                  // no further request is accepted
  Request& add(Instant now, Address from, AcquireBlocks&& ask, Serial serial);
  Request* find(Serial serial);  // null if it has ended
  const Request* find(Serial serial) const;
  std::optional<Serial> serial_of(Address from, RequestId id) const;
  Request take(Serial serial);  // ends the request, which must exist

  // Pins a ready block for a reader. `remote`: the reader is on another node.
  Hold read(const PoolBlock& block, bool remote, Effects& effects);

  void send_grants(const Request& request, Effects& effects) const;
  void refuse(Address from, const AcquireBlocks& ask, Effects& effects) const;
  // Sends the grants of a request whose wants are all decided.
  void answer(Serial serial, Effects& effects);

  const std::map<Serial, Request>& all() const { return requests_; }
  std::size_t size() const { return requests_.size(); }
  std::size_t unanswered() const;
  std::size_t remote_reads() const { return remote_reads_; }
  std::string check_bounds() const;  // "" or the exceeded bound

 private:
  using Key = std::pair<Address, RequestId>;
  Key key_of(Address from, RequestId id) const;
  BlockGrant grant_of(const Request& request, std::size_t want) const;
  bool is_sampled();

  const KvWorkerConfig& config_;
  PagePool& pool_;
  std::map<Serial, Request> requests_;
  std::map<Key, Serial> serials_;
  std::size_t remote_reads_ = 0;  // requests of other nodes in requests_
  std::uint64_t samples_;         // state of the generator that samples reads to verify
};

}  // namespace troupe::actors
