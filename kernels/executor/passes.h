#pragma once
// Runs batches on executors whose passes have limits. A batch that does not fit into one pass runs
// in several, with fewer requests each, and a single request in parts (split_request.h). A request
// that does not fit even then is too large. Limits differ between architectures and are not
// predicted: a pass beyond its limits says so before it computes anything.
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/executor/executor.h"

namespace troupe::kernels {

// Answers these requests in one pass and returns "", or computes nothing and returns the limit that
// they exceed.
using OnePass = std::function<std::string(std::span<const Request> requests, std::span<Reply> replies)>;

// Returns "" or, for more than `tokens_max` computed tokens, the limit of one pass that they exceed.
std::string validate_tokens(std::size_t tokens, std::size_t tokens_max);

// Makes one reply per request, without beams and chosen tokens of earlier requests.
void start_replies(std::span<const Request> requests, std::vector<Reply>& replies);

void run_in_passes(std::span<const Request> batch, std::span<Reply> replies, const OnePass& pass);

}  // namespace troupe::kernels
