#pragma once
// Rules that choose a worker among the candidates of a request. `earliest` takes the worker that
// would finish first; this one measure covers missing blocks, waiting work and slowness. The other
// rules are RcLLM's score (§III-C1), the baselines of that paper (§IV-D2) and HLEM's Algorithm 1.
// Workers with equal scores are ordered by their finish time.
//
//   affinity   alpha * hit - (1 - alpha) * load
//   hits       hit
//   load       -load
//   joint      HLEM's Algorithm 1 (§IV-C):
//              (C_kv * hit + C_rows * found + C_load * (1 - load)) / (C_kv + C_rows + C_load),
//              plus a bonus for the worker that the user was last sent to;
//              if the best worker is too busy, the least loaded one instead, unless that one is too
//              busy as well (the paper does not say; without the exception an overloaded cluster sends
//              every user everywhere and loses its caches when it needs them most)
//
// hit: fraction of the plan's blocks that the worker's node holds, weighted by the work to compute
// them.
// load: wait / (wait + time of the plan there with no block held), in [0, 1). The paper only says
// "normalised"; with this formula a queue as long as the request itself counts 0.5 for every model.
// found: fraction of the request's rows of an embedding table on disk that are in memory, estimated
// per shard of the table (row_profile.h).
// C: microseconds that a miss of each kind costs, as the workers measure them: computing all keys
// and values, fetching all rows, and waiting for one more such request.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::router {

struct Routing {
  enum class By : std::uint8_t { earliest, affinity, hits, load, joint };
  By by = By::earliest;
  double alpha = 0.5;  // 0..1; used by `affinity`
};

// Returns the score; higher is better. `earliest` gives every worker the same score. Not for
// `joint`.
double routing_score(const Routing& routing, double hit, double load);

struct MissCosts {  // in any common unit; all 0 = unknown
  double kv = 0, rows = 0, load = 0;
};
struct JointView {  // view of one worker
  double hit = 0, found = 0, load = 0;
  bool last = false;  // the user was last sent there
};
double joint_score(const MissCosts& costs, const JointView& view);
inline constexpr double too_busy_load = 0.85;  // HLEM's threshold

std::optional<Routing::By> find_routing(std::string_view name);
std::span<const std::string_view> routing_names();  // in the order of By

}  // namespace troupe::router
