#pragma once
// Transport between nodes in one process: the reader's thread copies from the owner's arena into
// its own. For tests, and for several nodes on one machine.
#include <cstdint>
#include <functional>
#include <map>
#include <shared_mutex>

#include "runtime/actor/metrics.h"
#include "runtime/transfer/pull_table.h"
#include "runtime/transfer/transport.h"

namespace troupe {

class LocalTransport;

// Registry of one process's transports. Thread-safe; outlives them.
class LocalNetwork {
 private:
  friend LocalTransport;
  std::shared_mutex mutex_;  // shared while an owner's pages are read
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, LocalTransport*> owners_;
};

class LocalTransport final : public Transport {
 public:
  // `incarnation` is this process's own. The arena and the metrics must outlive this. `responds` is
  // for tests and called for each request; false: it is not answered, as if this process were
  // stopped.
  LocalTransport(LocalNetwork& network, Incarnation incarnation, PageArena& arena, MetricRegistry& metrics,
                 std::function<bool()> responds = {});
  ~LocalTransport() override;
  LocalTransport(const LocalTransport&) = delete;
  LocalTransport& operator=(const LocalTransport&) = delete;

  Bytes address() const override;
  void meet(NodeId node, Incarnation incarnation, Bytes address) override;
  void lose(NodeId node, Incarnation incarnation) override;
  std::variant<PullResult, Refusal> pull(const PullBlocks& work) override;
  void stop() override;

 private:
  bool fetch(std::uint64_t owner, const PullRequest& request, IncomingPull& pull) const;
  void send(const PullRequest& request, IncomingPull& to) const;

  LocalNetwork& network_;
  const Incarnation incarnation_;
  PageArena& arena_;
  MetricRegistry& metrics_;
  const std::function<bool()> responds_;
  PullTable pulls_;
  std::uint64_t address_ = 0;  // in the network
};

}  // namespace troupe
