#pragma once
// The blocks of one request that are still in flight into the arena while a pass computes with
// them. Each layer waits for its part of the blocks. Before any result is reported, `settle` waits
// for the ends of all copies. A block that failed, was late or does not match its checksum is
// computed by another pass.
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
  InFlightReads(PageArrivals& arrivals, const BatchRequest& request);

  bool any() const { return !blocks_.empty(); }
  bool wait(std::size_t bytes) override;  // called on the pass's thread
  // Waits for the ends of all copies. Failed blocks are removed from the request, to be computed.
  // Returns false if there are any.
  bool settle(PassBlocks& blocks, kernels::Request& request);

  const std::vector<std::uint32_t>& missed() const { return missed_; }  // segments
  // Times since construction: until the last block had arrived, and spent waiting.
  std::int64_t in_flight_us() const;
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
