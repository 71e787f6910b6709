#include "runtime/profiling/cpu_rooms.h"

#include <time.h>

namespace troupe {

std::atomic<bool> meter::on = false;

namespace {

struct ThreadRoom {
  CpuRoom room = CpuRoom::none;
  std::int64_t since = 0;
};
thread_local ThreadRoom here;

std::atomic<std::int64_t (*)()> cpu_clock = thread_cpu_ns;
std::array<std::atomic<std::int64_t>, static_cast<std::size_t>(CpuRoom::count_)> counted;

// Switches the thread to `room`; the time used so far counts for the former one.
void change_to(CpuRoom room) {
  const std::int64_t now = cpu_clock.load(std::memory_order_relaxed)();
  if (here.room != CpuRoom::none)
    counted[static_cast<std::size_t>(here.room)].fetch_add(now - here.since, std::memory_order_relaxed);
  here = {room, now};
}

}  // namespace

std::string_view name_of(CpuRoom room) {
  static constexpr std::array<std::string_view, static_cast<std::size_t>(CpuRoom::count_)> names{
      "none",      "door",         "router",     "cache-meta",    "KV-cache worker", "inference worker",
      "allocator", "feature port", "block port", "executor port", "checksums",       "kernels",
      "codec",     "host"};
  return names[static_cast<std::size_t>(room)];
}

std::int64_t thread_cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void start_cpu_meter(std::int64_t (*clock)()) {
  for (auto& room : counted) room = 0;
  cpu_clock = clock;
  meter::on = true;
}

CpuTimes stop_cpu_meter() {
  meter::on = false;
  CpuTimes times;
  for (std::size_t room = 0; room < times.size(); ++room) times[room] = counted[room];
  return times;
}

void CpuScope::enter(CpuRoom room) {
  before_ = here.room;
  change_to(room);
}

void CpuScope::leave() { change_to(before_); }

}  // namespace troupe
