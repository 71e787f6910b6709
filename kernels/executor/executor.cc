// Counts the tokens that a request computes; tokens read from cached pages do not count.
#include "kernels/executor/executor.h"

namespace troupe::kernels {

std::size_t computed_tokens(const Request& request) {
  std::size_t tokens = 0;
  for (std::size_t s = 0; s < request.kv.size(); ++s)
    if (request.kv[s].source == Source::compute) tokens += request.plan->segments[s].tokens.size();
  return tokens;
}

}  // namespace troupe::kernels
