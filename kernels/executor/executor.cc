// Counts the tokens that requests compute; tokens read from cached pages do not count.
#include "kernels/executor/executor.h"

namespace troupe::kernels {

std::size_t computed_tokens(const Request& request) {
  std::size_t tokens = 0;
  for (std::size_t s = 0; s < request.kv.size(); ++s)
    if (request.kv[s].source == Source::compute) tokens += request.plan->segments[s].tokens.size();
  return tokens;
}

std::size_t computed_tokens(std::span<const Request> requests) {
  std::size_t tokens = 0;
  for (const Request& request : requests) tokens += computed_tokens(request);
  return tokens;
}

}  // namespace troupe::kernels
