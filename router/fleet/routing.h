#pragma once
// By what a request's worker is chosen of those that it looks at. `earliest` goes by when each would be done,
// which has what it lacks, what waits there and how slow it is in one measure. The others are RcLLM's score
// (§III-C1) and what the paper compares it with (§IV-D2); workers of the same score are chosen among by when
// they would be done.
//
//   affinity   alpha * hit - (1 - alpha) * load
//   hits       hit
//   load       -load
//   joint      HLEM's Algorithm 1 (§IV-C): (C_kv * hit + C_rows * found + C_load * (1 - load)) / (C_kv +
//   C_rows + C_load), and a
//              bonus for the worker that the user was sent to last; but the least loaded one where the best
//              is too busy
//
// hit: of the plan's blocks, weighed by the work of computing them, what the worker's node has. load: wait /
// (wait + time of the plan there if nothing is held), in [0, 1). The paper says "normalised" and no more; so
// a queue that takes as long as the request itself counts a half, whatever the model. found: of the request's
// rows of an embedding table that is not in memory, those that are there, told by shards of the table
// (row_profile.h). C: microseconds that a miss of each costs, as the workers measure them: all keys and
// values computed, all rows fetched, and one such request more that waits.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::router {

struct Routing {
  enum class By : std::uint8_t { earliest, affinity, hits, load, joint };
  By by = By::earliest;
  double alpha = 0.5;  // 0..1; of `affinity`
};

// The higher the better; the same for all by `earliest`. Not of `joint`.
double routing_score(const Routing& routing, double hit, double load);

struct MissCosts {  // in any unit, the same for all; together more than nothing
  double kv = 0, rows = 0, load = 0;
};
struct JointView {  // of one worker
  double hit = 0, found = 0, load = 0;
  bool last = false;  // the user was sent there last
};
double joint_score(const MissCosts& costs, const JointView& view);
inline constexpr double too_busy_load = 0.85;  // HLEM's threshold

std::optional<Routing::By> find_routing(std::string_view name);
std::span<const std::string_view> routing_names();  // in the order of By

}  // namespace troupe::router
