// Adds up CPU time per component (router, codec, executors, …) from the threads' CPU clocks. It
// shows where a node spends its processors.
#include "runtime/profiling/cpu_components.h"

#include <time.h>

namespace troupe {

std::atomic<bool> cpu_profiling::on = false;

namespace {

struct ThreadComponent {
  CpuComponent component = CpuComponent::none;
  std::int64_t since = 0;
};
thread_local ThreadComponent current;

std::atomic<std::int64_t (*)()> cpu_clock = thread_cpu_ns;
std::array<std::atomic<std::int64_t>, static_cast<std::size_t>(CpuComponent::count_)> counted;

// Switches the thread to `component`; the time used so far counts for the former one.
void change_to(CpuComponent component) {
  const std::int64_t now = cpu_clock.load(std::memory_order_relaxed)();
  if (current.component != CpuComponent::none)
    counted[static_cast<std::size_t>(current.component)].fetch_add(now - current.since,
                                                                   std::memory_order_relaxed);
  current = {component, now};
}

}  // namespace

std::string_view name_of(CpuComponent component) {
  static constexpr std::array<std::string_view, static_cast<std::size_t>(CpuComponent::count_)> names{
      "none",      "door",         "router",     "cache-meta",    "KV-cache worker", "inference worker",
      "allocator", "feature port", "block port", "executor port", "checksums",       "kernels",
      "codec",     "host"};
  return names[static_cast<std::size_t>(component)];
}

std::int64_t thread_cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void start_cpu_profile(std::int64_t (*clock)()) {
  for (auto& component : counted) component = 0;
  cpu_clock = clock;
  cpu_profiling::on = true;
}

CpuTimes stop_cpu_profile() {
  cpu_profiling::on = false;
  CpuTimes times;
  for (std::size_t component = 0; component < times.size(); ++component)
    times[component] = counted[component];
  return times;
}

void CpuScope::enter(CpuComponent component) {
  before_ = current.component;
  change_to(component);
}

void CpuScope::leave() { change_to(before_); }

}  // namespace troupe
