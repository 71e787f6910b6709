#pragma once
// By what a request's worker is chosen of those that it looks at. `earliest` goes by when each would be done, which has what
// it lacks, what waits there and how slow it is in one measure. The others are RcLLM's score (§III-C1) and what the paper
// compares it with (§IV-D2); workers of the same score are chosen among by when they would be done.
//
//   affinity   alpha * hit - (1 - alpha) * load
//   hits       hit
//   load       -load
//
// hit: of the plan's blocks, weighed by the work of computing them, what the worker's node has. load: wait / (wait + time of
// the plan there if nothing is held), in [0, 1). The paper says "normalised" and no more; so a queue that takes as long as
// the request itself counts a half, whatever the model.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::router {

struct Routing {
  enum class By : std::uint8_t { earliest, affinity, hits, load };
  By by = By::earliest;
  double alpha = 0.5;  // 0..1; of `affinity`
};

// The higher the better; the same for all by `earliest`.
double routing_score(const Routing& routing, double hit, double load);

std::optional<Routing::By> find_routing(std::string_view name);
std::span<const std::string_view> routing_names();  // in the order of By

}  // namespace troupe::router
