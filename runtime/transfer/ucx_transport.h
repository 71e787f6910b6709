#pragma once
// The transport between processes, on UCX. Both directions are active messages: the owner checks what is
// asked for, and sends; nobody reads or writes another process's memory. Replies are always taken whole into
// UCX's own buffers and copied from there, so that no late byte can reach a page (UCX cannot take back a
// receive into user memory). Sealed ones are opened on the way, once their tag was found right.
//
// One thread does all of it. An endpoint to a peer is made by the first pull, and closed when the peer is
// lost, fails, or stays silent; the next pull makes another one.
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/actor/metrics.h"
#include "runtime/pool/page_arena.h"
#include "runtime/transfer/transport.h"

namespace troupe {

struct UcxOptions {
  std::string transports = "tcp";  // of UCX (UCX_TLS): "tcp", "rc,ud,tcp"
  std::string devices;             // of UCX (UCX_NET_DEVICES): "eth0", "mlx5_0:1"; empty: all
  // What this process sends, and what it is asked, is encrypted (page_seal.h). The keys go with address(), so
  // that it has to travel encrypted, too. Others' pages are read as these send them, whatever this says.
  bool sealed = false;
  // A peer that was asked and said nothing for that long when a pull's time is up gets a new connection: the
  // path may be broken, which TCP notices late. UCX keeps one socket open for each connection that it gives
  // up so.
  std::chrono::milliseconds silence_max{1'000};
  std::function<void()> before_answer = {};  // for tests: on the thread, before each request; may block
};

class UcxTransport final : public Transport {
 public:
  // `incarnation` is this process's own. Throws std::runtime_error if UCX cannot be set up so.
  UcxTransport(UcxOptions options, Incarnation incarnation, PageArena& arena, MetricRegistry& metrics);
  ~UcxTransport() override;
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  Bytes address() const override;
  void meet(NodeId node, Incarnation incarnation, Bytes address) override;
  void lose(NodeId node, Incarnation incarnation) override;
  std::variant<Pulled, Refusal> pull(const PullBlocks& work) override;
  void stop() override;

 private:
  class Wire;
  std::unique_ptr<Wire> wire_;
};

}  // namespace troupe
