#pragma once
// Cuts a request that is too large for one pass into parts that run one after the other. Each
// segment that is read or kept is computed together with all that it needs; later parts read from
// pages what earlier parts left there. A segment that several parts need and no page keeps, such as
// the query of many candidates, is computed by each part. The parts' answers together are the
// request's, up to rounding.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/executor/executor.h"

namespace troupe::kernels {

struct RequestPart {
  Plan plan;
  std::vector<SegmentKv> kv;
  std::vector<std::uint32_t> readouts;  // [readout of the part]: readout of the request
};

// Returns the parts in the order in which they must run. Each computes at most `tokens_max` tokens,
// unless one segment alone, with what it needs, takes more.
std::vector<RequestPart> split_request(const Request& request, std::size_t tokens_max);

}  // namespace troupe::kernels
