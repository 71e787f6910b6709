#pragma once
// What a request costs the processors of its node beside what the cost model says of its model's passes: in
// each room (the rooms of runtime/profiling/cpu_rooms.h) some microseconds a request, a part of its prompt (a
// candidate, the user, the frame), a block that it names, a mebibyte that is summed up, a block that is
// computed and kept, and a pass that begins after its processor has stood still, whose caches others have had
// meanwhile. A device's profile has it, fitted to what `bench rank --profile` saw; one without charges
// nothing.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::placement {

// Of a request, or the sum of several.
struct HostUnits {
  double requests = 0, parts = 0, blocks = 0, mebibytes = 0, kept = 0, cold = 0;

  HostUnits& operator+=(const HostUnits& other);
  bool operator==(const HostUnits&) const = default;
};
double dot(const HostUnits& costs, const HostUnits& units);
// How cold a pass begins, from 0 to 1, after its executor stood still for so long; half so after a
// millisecond.
double coldness(double still_us);

enum class HostRoom : std::uint8_t {
  door,
  router,
  cache_meta,
  kv_worker,
  inference_worker,
  feature_port,
  executor_port,
  checksums,
  host,
  passes,
  rest,
  count_
};
inline constexpr std::size_t host_rooms = static_cast<std::size_t>(HostRoom::count_);
// As that of CpuRoom; what no room counts is the "rest". `passes` is what kernels took beyond the cost model:
// blocks that are read where they lie, in memory that nothing has touched for a while.
std::string_view name_of(HostRoom room);

struct HostWork {
  std::array<HostUnits, host_rooms> costs{};  // microseconds
  double idle_share =
      0;  // of one processor, whether there are requests or not: heartbeats, the scrubber, clocks
  double wait_us = 0;  // of a request, in which no processor works for it: threads being woken

  const HostUnits& operator[](HostRoom room) const { return costs[static_cast<std::size_t>(room)]; }
  HostUnits& operator[](HostRoom room) { return costs[static_cast<std::size_t>(room)]; }
  bool charges() const { return *this != HostWork{}; }
  bool operator==(const HostWork&) const = default;
};
std::string find_fault(const HostWork& work);  // "": costs are finite, and none is below nothing

// What was measured: all requests of a run together.
struct HostRun {
  HostUnits units;
  std::array<double, host_rooms> us{};
  double seconds = 0;    // that it took
  double passes_us = 0;  // by the cost model
};
// Least squares of the relative error of each room's time over the runs (of passes, of all that they took),
// with no cost below nothing. A unit that no run has, or that all runs have in proportion to another one,
// gets what explains the runs, and nothing more. Throws std::invalid_argument without a run.
HostWork fit_host(std::span<const HostRun> runs);

}  // namespace troupe::placement
