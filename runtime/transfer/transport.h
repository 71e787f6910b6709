#pragma once
// Moves pages from one node to another. The reader pulls: it names pages that their owner holds for
// it under a read lease, and the owner checks that they are its own and sends their bytes. There are
// three implementations: LinkTransport and UcxTransport between processes, LocalTransport between
// nodes of one process. The control connection reports starts and ends of processes with `meet` and `lose`.
//
// Guarantees to callers of `pull`, and, but for parts, of `start_pull`:
// - One outcome, by the deadline or, if the caller's thread runs later, as soon as it runs. It does
//   not depend on the peer. It waits for the transport's own thread only while that one writes a
//   piece and sums up after it: at most a window of IncomingPull.
// - After any outcome, no byte of the destination pages is written. Their bytes are valid only if
//   the block is ok: its checksum, computed over the destination, was compared after the last byte
//   arrived.
// - For work in parts (PullBlocks::parts), bytes arrive in that order, and the arena's PageArrivals
//   know the progress and the end of each block before the caller does.
// - Bytes from the network are checked before use: sizes before any allocation, page ids before any
//   read. Malformed messages are counted (protocol_errors) and dropped.
//
// LinkTransport has the authentication and encryption of the links. UcxTransport without sealing has
// none: anybody who can connect and knows the incarnation can read pages, so the network must be
// trusted. With sealed pages (page_seal.h), anybody with the address can, so the channel that carries
// addresses must be trusted. Either way, invalid bytes in UCX's own headers end the process.
#include <cstdint>
#include <functional>
#include <variant>

#include "runtime/actor/ports.h"

namespace troupe {

// Thread-safe. The arena must outlive it.
class Transport {
 public:
  // Stops as stop() does, and waits until the running pulls have returned.
  virtual ~Transport() = default;

  // Address by which other processes reach this one's pages; control messages carry it to them.
  virtual Bytes address() const = 0;

  // Sets how a process is reached. A newer incarnation replaces an older one, whose pulls end with
  // a refusal; an older one is ignored. The same incarnation, met again after it was lost, is
  // reachable again.
  virtual void meet(NodeId node, Incarnation incarnation, Bytes address) = 0;
  // Marks the process and its earlier incarnations as gone or unreachable: their pulls end at once
  // with a refusal.
  virtual void lose(NodeId node, Incarnation incarnation) = 0;

  // Blocks the caller; several calls may run at a time. Refusals (unavailable): peer_unknown,
  // peer_lost, peer_unreachable, wrong_incarnation, wrong_page_bytes, peer_overloaded,
  // transfer_timeout, transfer_damaged (sealed pages), transport_stopped. bad_pages is unavailable if
  // the owner lacks the named pages, and internal if this arena does.
  virtual std::variant<PullResult, Refusal> pull(const PullBlocks& work) = 0;

  // Starts a pull that takes no thread of the caller's. Returns true if the transport can pull so: `done`
  // then gets the outcome once, on the transport's thread, which serves other pulls afterwards; it must
  // not destroy the transport. Otherwise leaves both arguments as they are, and the caller uses pull().
  // The process must ignore SIGPIPE, since the request may be sent on the caller's thread.
  using PullOutcome = std::variant<PullResult, Refusal>;
  using Done = std::function<void(PullOutcome)>;
  virtual bool start_pull(PullBlocks&, const Done&) { return false; }

  // Ends running pulls with a refusal and refuses later ones at once. For shutdown, before the
  // threads that call `pull` end.
  virtual void stop() = 0;
};

}  // namespace troupe
