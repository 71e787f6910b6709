#pragma once
// Batches on executors whose passes have bounds: what does not fit into one pass is run in several, fewer
// requests at a time, and one request in parts (cut_request.h); what no cut makes fit is too large. Bounds
// differ from family to family and are not foreseen: a pass that is beyond them says so before it computes
// anything.
#include <functional>
#include <span>
#include <string>

#include "kernels/executor/executor.h"

namespace troupe::kernels {

// Answers these requests in one pass, or says what is beyond its bounds; then nothing was computed.
using OnePass = std::function<std::string(std::span<const Request> requests, std::span<Reply> replies)>;

void run_in_passes(std::span<const Request> batch, std::span<Reply> replies, const OnePass& pass);

}  // namespace troupe::kernels
