#pragma once
// Transport between processes, over connections that the cluster's links open and accept (links.h):
// the same port, the same certificates and names, the same admission. A stranger gets no further than
// a stranger to the links. Each reader has a connection of its own to each owner, so pages never
// delay the links' messages; one thread serves all of them. Where links have no certificates, pages
// travel in the clear, as messages do.
//
// The owner checks each request and sends; requests and replies are those of pull_wire.h. A piece is
// received whole and copied into the pages from there, so that no late byte can reach a page.
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/actor/metrics.h"
#include "runtime/pool/page_arena.h"
#include "runtime/transfer/page_socket.h"
#include "runtime/transfer/transport.h"

namespace troupe {

struct LinkTransportOptions {
  // If a pull times out and its peer has not answered for this long, the peer gets a new connection:
  // the path may be broken, which TCP notices late.
  std::chrono::milliseconds silence_max{1'000};
  // Follows the mark in address(); only tests have more than one way to a peer.
  Bytes address_detail = {};
  // For tests: called on the transport's thread before each request; may block.
  std::function<void()> before_answer = {};
};

class LinkTransport final : public Transport {
 public:
  // `incarnation` is this process's own. Throws std::runtime_error if the system has no more files
  // or threads.
  LinkTransport(LinkTransportOptions options, Incarnation incarnation, PageArena& arena,
                MetricRegistry& metrics);
  ~LinkTransport() override;
  LinkTransport(const LinkTransport&) = delete;
  LinkTransport& operator=(const LinkTransport&) = delete;

  // Takes a connection to the peer, or the reason why there is none, which continues "node N cannot
  // be reached: ". May be called from any thread, also after the transport's end; called once or never.
  using TakeSocket = std::function<void(PageSocket, const std::string& fault)>;
  // Opens a connection to that process, which has this address. Must not block.
  using Dial = std::function<void(NodeId, Incarnation, const Bytes& address, TakeSocket)>;
  // Until then no peer can be reached. Thread-safe. After stop(), `dial` is not running and is not
  // called any more.
  void dial_with(Dial dial);
  // Takes a connection that this process reads from. Thread-safe.
  void accept(NodeId reader, Incarnation incarnation, PageSocket socket);

  Bytes address() const override;
  void meet(NodeId node, Incarnation incarnation, Bytes address) override;
  // Also ends the connections by which that process reads here.
  void lose(NodeId node, Incarnation incarnation) override;
  std::variant<PullResult, Refusal> pull(const PullBlocks& work) override;
  // Returns false for work in parts: its checksums are computed at the end, on the caller's thread.
  bool start_pull(PullBlocks& work, const Done& done) override;
  void stop() override;

  // Returns whether the address is one of this transport's kind.
  static bool is_address(std::span<const std::uint8_t> address);

 private:
  class Wire;
  std::unique_ptr<Wire> wire_;
};

}  // namespace troupe
