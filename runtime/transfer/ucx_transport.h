#pragma once
// Transport between processes, over UCX. Requests and replies are active messages: the owner checks
// each request and sends; nobody reads or writes another process's memory. Replies are always
// received whole into UCX's own buffers and copied from there, so that no late byte can reach a
// page (UCX cannot cancel a receive into user memory). Sealed replies are decrypted before the
// copy, after their tag was verified.
//
// One thread does all the work. The first pull opens an endpoint to a peer. It is closed when
// the peer is lost, fails or stays silent; the next pull opens another one.
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/actor/metrics.h"
#include "runtime/pool/page_arena.h"
#include "runtime/transfer/transport.h"

namespace troupe {

struct UcxOptions {
  std::string transports = "tcp";  // UCX_TLS: "tcp", "rc,ud,tcp"
  std::string devices;             // UCX_NET_DEVICES: "eth0", "mlx5_0:1"; empty: all
  // Encrypts the replies of this process and the requests to it (page_seal.h). The keys are part of
  // address(), which must then travel encrypted too. Pages of other processes are read as those
  // send them, whatever this option is.
  bool sealed = false;
  // If a pull times out and its peer has not answered for this long, the peer gets a new
  // connection: the path may be broken, which TCP notices late. UCX keeps one socket open for each
  // connection abandoned this way.
  std::chrono::milliseconds silence_max{1'000};
  // For tests: called on the worker's thread before each request; may block.
  std::function<void()> before_answer = {};
};

class UcxTransport final : public Transport {
 public:
  // `incarnation` is this process's own. Throws std::runtime_error if UCX cannot be set up with
  // these options.
  UcxTransport(UcxOptions options, Incarnation incarnation, PageArena& arena, MetricRegistry& metrics);
  ~UcxTransport() override;
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  Bytes address() const override;
  void meet(NodeId node, Incarnation incarnation, Bytes address) override;
  void lose(NodeId node, Incarnation incarnation) override;
  std::variant<PullResult, Refusal> pull(const PullBlocks& work) override;
  void stop() override;

 private:
  class Wire;
  std::unique_ptr<Wire> wire_;
};

}  // namespace troupe
