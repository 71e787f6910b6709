// Lets a pass compute while some of its blocks are still being copied from other nodes. Each layer
// waits only for the bytes that it reads. Blocks that failed or came late are computed by a second
// pass.
#include "actors/inference/in_flight_reads_port.h"

#include <algorithm>

namespace troupe::actors {

InFlightReads::InFlightReads(PageArrivals& arrivals, const BatchRequest& request, std::int64_t in_flight_us)
    : arrivals_(arrivals),
      begun_(Clock::now()),
      deadline_(begun_ + std::chrono::microseconds(in_flight_us)),
      all_here_(begun_) {
  for (std::uint32_t i = 0; i < request.kv.size(); ++i)
    if (request.kv[i].grant == Grant::read && request.kv[i].in_flight)
      blocks_.push_back({i, request.kv[i].generation});
}

bool InFlightReads::wait(std::size_t bytes) {
  const auto from = Clock::now();
  const bool there = std::ranges::all_of(
      blocks_, [&](const Block& block) { return arrivals_.wait(block.generation, bytes, deadline_); });
  waited_ += Clock::now() - from;
  return there;
}

bool InFlightReads::settle(PassBlocks& blocks, kernels::Request& request) {
  request.in_flight = nullptr;
  const auto from = Clock::now();
  for (const Block& block : blocks_) {
    if (const auto end = arrivals_.wait_for_end(block.generation, deadline_)) {
      all_here_ = std::max(all_here_, std::min(*end, Clock::now()));
      continue;
    }
    missed_.push_back(block.segment);
    request.kv[block.segment] = {};
    std::erase_if(blocks, [&](const PassBlock& pass) { return pass.segment == block.segment; });
  }
  waited_ += Clock::now() - from;
  blocks_.clear();
  return missed_.empty();
}

// Returns 0 if some blocks did not arrive: a second pass is needed then, and overlap saved nothing.
std::int64_t InFlightReads::in_flight_us() const {
  if (!missed_.empty()) return 0;
  return std::chrono::duration_cast<std::chrono::microseconds>(all_here_ - begun_).count();
}

std::int64_t InFlightReads::waited_us() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(waited_).count();
}

}  // namespace troupe::actors
