#pragma once
// The blocks of one request that are still in flight into the arena while a pass computes with
// them. Each layer waits for its part of the blocks. Before any result is reported, `settle` waits
// for the ends of all copies, but not beyond the batch's `in_flight_us`. A block that failed, was
// late or does not match its checksum is computed by another pass.
#include <chrono>
#include <cstdint>
#include <vector>

#include "actors/inference/pass_pages_port.h"
#include "kernels/executor/executor.h"
#include "runtime/pool/page_arrivals.h"

namespace troupe::actors {

class InFlightReads final : public kernels::PagesInFlight {
 public:
  using Clock = PageArrivals::Clock;
  // `arrivals` outlives the object.
  InFlightReads(PageArrivals& arrivals, const BatchRequest& request, std::int64_t in_flight_us);

  bool any() const { return !blocks_.empty(); }
  // Waits until the first `bytes` bytes of each page have arrived. Returns false if a copy failed
  // or was late. Called on the pass's thread.
  bool wait(std::size_t bytes) override;
  // Waits until every copy has ended or the time is over. Removes blocks that failed or were late
  // from `blocks` and `request`, so that another pass computes them. Returns true if there are
  // none; otherwise the pass's result must be discarded.
  bool settle(PassBlocks& blocks, kernels::Request& request);

  const std::vector<std::uint32_t>& missed() const { return missed_; }  // segments
  // Time from construction until all blocks had arrived; 0 if some did not, since overlap then
  // saved nothing.
  std::int64_t in_flight_us() const;
  // Time spent waiting.
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
