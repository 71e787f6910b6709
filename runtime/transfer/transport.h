#pragma once
// How pages get from one node to another. The reader pulls: it names pages that their owner holds for it (a
// read lease), the owner looks whether they are its own and sends their bytes. Two exist: UcxTransport
// between processes, LocalTransport between the nodes of one process. Whoever learns of processes and of
// their ends (the control connection) says so with `meet` and `lose`.
//
// What a caller of `pull` may rely on:
// - One outcome, by the deadline or, after it, as soon as the caller's thread runs. It does not depend on the
//   peer, nor on the transport's own thread but for the piece that this one is writing, and what it sums up
//   with it: a window of IncomingPull at most.
// - After the outcome, whatever it is, no byte of the destination pages is written. Their bytes are good only
//   if the block is ok: its checksum, summed up where it lies, was compared after the last byte had come.
// - Of work in parts (PullBlocks::parts) the bytes come in that order, and the arena's PageArrivals know how
// far they are and
//   how each block has ended before the caller does.
// - Bytes from the network are checked before they are believed: sizes before anything is allocated, page ids
//   before anything is read. What makes no sense is counted (protocol_errors) and dropped.
// In the clear it neither knows nor hides anybody: whoever reaches it and knows the incarnation can read
// pages, and the network has to be trusted. Where pages are sealed (page_seal.h), who has its address can,
// and what carries addresses has to be trusted.
#include <cstdint>
#include <variant>

#include "runtime/actor/ports.h"

namespace troupe {

// Thread-safe. The arena outlives it.
class Transport {
 public:
  // Ends like stop(), and waits until the running pulls have returned.
  virtual ~Transport() = default;

  // By this, other processes reach this one's pages; it travels to them in a control message.
  virtual Bytes address() const = 0;

  // How that process is reached. A newer incarnation takes the place of an older one, whose pulls end as
  // refused; an older one is ignored. The same one again, after it was lost, can be reached again.
  virtual void meet(NodeId node, Incarnation incarnation, Bytes address) = 0;
  // That process and those before it are gone, or cannot be reached: their pulls end at once as refused.
  virtual void lose(NodeId node, Incarnation incarnation) = 0;

  // Blocks; several at a time. Refusals (503): peer_unknown, peer_lost, peer_unreachable, wrong_incarnation,
  // wrong_page_bytes, peer_overloaded, transfer_timeout, transfer_damaged (sealed pages), transport_stopped;
  // bad_pages if the owner does not have the pages that were named, and as 500 if this arena does not.
  virtual std::variant<Pulled, Refusal> pull(const PullBlocks& work) = 0;

  // Running pulls end as refused, later ones are refused at once. For those that must end before the threads
  // do that run them.
  virtual void stop() = 0;
};

}  // namespace troupe
