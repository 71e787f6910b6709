#pragma once
// The KV-cache worker's port: pages of other nodes come by the transport, those of the disk from the store.
#include "runtime/actor/ports.h"
#include "runtime/transfer/transport.h"

namespace troupe::deploy {

class PullingPort final : public Port {
 public:
  // Both outlive it; `transport` may be null: then nothing can be pulled.
  PullingPort(Transport* transport, Port& store) : transport_(transport), store_(store) {}

  JobResult run(const Job& job, std::uint32_t lane) override {
    const auto* pull = std::get_if<PullBlocks>(&job);
    if (!pull) return store_.run(job, lane);
    if (!transport_)
      return Refusal{503, "no_transport", "this process has no transport", "transport", "a cluster's node"};
    return std::visit([](auto&& outcome) -> JobResult { return std::move(outcome); },
                      transport_->pull(*pull));
  }

 private:
  Transport* transport_;
  Port& store_;
};

}  // namespace troupe::deploy
