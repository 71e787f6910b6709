#pragma once
// CPU time by component. Hosts, ports and the codec declare which component a thread works for, and
// the thread's CPU clock is read at each change. A component inside another counts for itself
// alone. Measurement is off by default, because reading that clock costs some 0.2 µs; a scope then
// costs one load.
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace troupe {

enum class CpuComponent : std::uint8_t {
  none,  // undeclared; not counted
  server,
  router,
  cache_meta,
  kv_worker,
  inference_worker,
  allocator,
  feature_port,   // profiles and catalog, and questions to the Coordination
  block_port,     // pulls and the persistent tier
  executor_port,  // an executor's work besides kernels and checksums
  checksums,
  kernels,
  codec,
  host,  // mailboxes, timers, routes, waking threads
  count_
};
std::string_view name_of(CpuComponent component);

// nanoseconds per component
using CpuTimes = std::array<std::int64_t, static_cast<std::size_t>(CpuComponent::count_)>;
// Returns the CPU time of the calling thread in nanoseconds.
std::int64_t thread_cpu_ns();

// Starts to count from zero by `clock`, until stop_cpu_profile(). A thread that is already inside a
// component counts from its next one on.
void start_cpu_profile(std::int64_t (*clock)() = thread_cpu_ns);
CpuTimes stop_cpu_profile();

namespace cpu_profiling {
extern std::atomic<bool> on;
}

// Declares that the calling thread works for `component` while this object lives.
class CpuScope {
 public:
  explicit CpuScope(CpuComponent component) : measured_(cpu_profiling::on.load(std::memory_order_relaxed)) {
    if (measured_) enter(component);
  }
  ~CpuScope() {
    if (measured_) leave();
  }
  CpuScope(const CpuScope&) = delete;
  CpuScope& operator=(const CpuScope&) = delete;

 private:
  void enter(CpuComponent component);
  void leave();

  const bool measured_;
  CpuComponent before_ = CpuComponent::none;
};

}  // namespace troupe
