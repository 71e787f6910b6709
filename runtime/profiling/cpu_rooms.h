#pragma once
// Where CPU time goes, by room: hosts, ports and the codec say in which room a thread is for a while, and the
// thread's own CPU clock is read when that changes. A room inside another counts for itself alone. Off unless
// somebody measures, because reading that clock costs some 0.2 µs; a scope then costs one load.
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace troupe {

enum class CpuRoom : std::uint8_t {
  none,  // nobody said; not counted
  door,
  router,
  cache_meta,
  kv_worker,
  inference_worker,
  allocator,
  feature_port,   // profiles and catalog, and questions to the Coordination
  block_port,     // pulls and the persistent tier
  executor_port,  // what an executor does besides its kernels and checksums
  checksums,
  kernels,
  codec,
  host,  // mailboxes, timers, routes, waking threads
  count_
};
std::string_view name_of(CpuRoom room);

using CpuTimes = std::array<std::int64_t, static_cast<std::size_t>(CpuRoom::count_)>;  // ns
// Nanoseconds of CPU that the calling thread has used.
std::int64_t thread_cpu_ns();

// Counts from zero, by that clock, until stop. Threads that are in a room already count from their next one
// on.
void start_cpu_meter(std::int64_t (*clock)() = thread_cpu_ns);
CpuTimes stop_cpu_meter();

namespace meter {
extern std::atomic<bool> on;
}

// The calling thread is in `room` as long as this lives.
class CpuScope {
 public:
  explicit CpuScope(CpuRoom room) : measured_(meter::on.load(std::memory_order_relaxed)) {
    if (measured_) enter(room);
  }
  ~CpuScope() {
    if (measured_) leave();
  }
  CpuScope(const CpuScope&) = delete;
  CpuScope& operator=(const CpuScope&) = delete;

 private:
  void enter(CpuRoom room);
  void leave();

  const bool measured_;
  CpuRoom before_ = CpuRoom::none;
};

}  // namespace troupe
