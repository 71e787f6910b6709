#pragma once
// Port of the KV-cache worker: pulls pages of other nodes through the transport, loads and saves
// blocks through the store, and verifies checksums of blocks in the arena.
#include "runtime/actor/ports.h"
#include "runtime/pool/page_arena.h"
#include "runtime/transfer/transport.h"

namespace troupe::deploy {

class KvWorkerPort final : public Port {
 public:
  // All arguments must outlive this port. A null `transport` refuses every pull.
  KvWorkerPort(Transport* transport, Port& store, const PageArena& arena)
      : transport_(transport), store_(store), arena_(arena) {}

  JobResult run(const Job& job, std::uint32_t slot) override {
    if (const auto* check = std::get_if<CheckBlocks>(&job)) return check_blocks(arena_, *check);
    const auto* pull = std::get_if<PullBlocks>(&job);
    if (!pull) return store_.run(job, slot);
    if (!transport_)
      return Refusal{RefusalKind::unavailable, "no_transport", "this process has no transport", "transport",
                     "a cluster's node"};
    return std::visit([](auto&& outcome) -> JobResult { return std::move(outcome); },
                      transport_->pull(*pull));
  }
  // Pulls take no executor where the transport's thread can end them.
  bool begin(Job& job, const Finish& finish) override {
    auto* const pull = std::get_if<PullBlocks>(&job);
    if (!pull || !transport_) return false;
    return transport_->start_pull(*pull, [finish](Transport::PullOutcome outcome) {
      finish(std::visit([](auto&& one) -> JobResult { return std::move(one); }, std::move(outcome)));
    });
  }

 private:
  Transport* transport_;
  Port& store_;
  const PageArena& arena_;
};

}  // namespace troupe::deploy
