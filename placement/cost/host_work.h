#pragma once
// Models the CPU work of a node outside its model's passes (the cost model covers those). Each
// component (see runtime/profiling/cpu_components.h) takes some microseconds per request, per part
// of its prompt (a candidate, the user, the frame), per named block, per mebibyte to checksum, per
// block that is computed and kept, and per cold pass. A cold pass begins after its processor was
// idle and its caches were used by others. A device profile holds these costs, fitted to runs of
// `bench rank --profile`; a profile without them charges nothing.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::placement {

// Units of one request, or the sum of several.
struct HostUnits {
  double requests = 0, parts = 0, blocks = 0, mebibytes = 0, kept = 0, cold = 0;

  HostUnits& operator+=(const HostUnits& other);
  bool operator==(const HostUnits&) const = default;
};
double dot(const HostUnits& costs, const HostUnits& units);
// Returns how cold a pass begins after its executor was idle for `still_us`: from 0 to 1, and 0.5
// after a millisecond.
double cold_cache_share(double still_us);

enum class HostComponent : std::uint8_t {
  server,
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
inline constexpr std::size_t host_components = static_cast<std::size_t>(HostComponent::count_);
// Returns the same name as for the matching CpuComponent; `rest` is what no component counts.
// `passes` is the time that kernels take beyond the cost model: they read blocks in memory that was
// not touched for a while.
std::string_view name_of(HostComponent component);

struct HostWork {
  std::array<HostUnits, host_components> costs{};  // microseconds
  // Share of one processor that is busy without requests: heartbeats, the scrubber, clocks.
  double idle_share = 0;
  double wait_us = 0;  // time per request in which no processor works for it: threads are being woken

  const HostUnits& operator[](HostComponent component) const {
    return costs[static_cast<std::size_t>(component)];
  }
  HostUnits& operator[](HostComponent component) { return costs[static_cast<std::size_t>(component)]; }
  bool charges() const { return *this != HostWork{}; }
  bool operator==(const HostWork&) const = default;
};
std::string validate(const HostWork& work);  // "" if all costs are finite and not negative

// The measured sum of all requests of one run.
struct HostRun {
  HostUnits units;
  std::array<double, host_components> us{};
  double seconds = 0;    // duration of the run
  double passes_us = 0;  // predicted by the cost model
};
// Fits costs by least squares of the relative error of each component's time over the runs; no cost
// is negative. The error of `passes` is relative to all the time that passes take. A unit that
// occurs in no run gets cost 0; units that occur only in proportion to each other share what the
// runs explain. Throws std::invalid_argument if there are no runs.
HostWork fit_host(std::span<const HostRun> runs);

}  // namespace troupe::placement
