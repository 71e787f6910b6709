#pragma once
// The blocks of one request that are still on their way into the arena while a pass computes it: how long
// each layer has to wait for them, and, before anything is said that was computed from them, how they have
// ended. What did not come in time, or came otherwise than its checksum says, is computed by another pass.
#include <chrono>
#include <cstdint>
#include <vector>

#include "actors/inference/pass_pages_port.h"
#include "kernels/executor/executor.h"
#include "runtime/pool/page_arrivals.h"

namespace troupe::actors {

class ComingBlocks final : public kernels::ComingPages {
 public:
  using Clock = PageArrivals::Clock;
  // `arrivals` outlives it.
  ComingBlocks(PageArrivals& arrivals, const BatchRequest& request);

  bool any() const { return !blocks_.empty(); }
  bool wait(std::size_t bytes) override;  // on the pass's thread
  // Waits for all ends. Those that were not good leave the request, and are computed from now on; false:
  // there are some.
  bool settle(PassBlocks& blocks, kernels::Request& request);

  const std::vector<std::uint32_t>& missed() const { return missed_; }  // segments
  // Since it was made: until the last one was here, and how long of that was waited.
  std::int64_t coming_us() const;
  std::int64_t waited_us() const;

 private:
  struct Block {
    std::uint32_t segment = 0;
    std::uint64_t generation = 0;
  };

  PageArrivals& arrivals_;
  const Clock::time_point begun_, deadline_;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> missed_;
  Clock::time_point all_here_;
  Clock::duration waited_{};
};

}  // namespace troupe::actors
