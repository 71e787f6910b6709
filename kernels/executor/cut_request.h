#pragma once
// A request that is too large for one pass, cut into parts that can be computed one after the other: what is
// to be read or kept is computed with all that it needs, and what one part leaves in pages the next ones read
// there. What several parts need and no page keeps, such as the query of many candidates, each computes for
// itself. The answers together are the request's (up to rounding).
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/executor/executor.h"

namespace troupe::kernels {

struct RequestPart {
  Plan plan;
  std::vector<SegmentKv> kv;
  std::vector<std::uint32_t> readouts;  // of the request, by the part's
};

// In the order in which they are to run. Each computes at most `tokens_max` tokens, unless one segment alone,
// with what it needs, takes more.
std::vector<RequestPart> cut_request(const Request& request, std::size_t tokens_max);

}  // namespace troupe::kernels
