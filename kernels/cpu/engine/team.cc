// Lends idle cores to forward passes. Helper threads take parts of a pass's work while fewer passes
// run than there are cores.
#include "kernels/cpu/engine/team.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/cpu/engine/split_fit.h"

namespace troupe::kernels {
namespace {

// How often a helper looks for the next region before it sleeps: longer than the single-threaded
// time of a pass between two regions, and short compared with sleeping and waking.
constexpr int looks_before_sleep = 2000;

// Factor on the least operations that are split, where passes use most of the cores. With fewer, splits cost
// up to half of the time of small searches (tests/bench/split_bench.cc).
constexpr double shared_factor = 100;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

Team::Team(std::uint32_t cores, CpuSet cpus, double lone, double shared)
    : cores_(cores), cpus_(std::move(cpus)), lone_(lone), shared_(shared) {
  TROUPE_CHECK(cores > 0, "team: expected at least one core");
  try {
    for (std::uint32_t worker = 1; worker < cores; ++worker)
      helpers_.emplace_back([this, worker] { help(worker); });
  } catch (...) {  // the system has no more threads
    stop();
    throw;
  }
}

Team::~Team() {
  TROUPE_CHECK(passes_ == 0, "team: no pass may be under way when it is destroyed");
  stop();
}

void Team::bind_caller() const {
  thread_local CpuSet bound;
  if (bound != cpus_) bind_to_cpus(bound = cpus_);
}

void Team::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ++changes_;
  }
  changed_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Team::Region::take_parts(std::uint32_t worker, const Team* gives_way) noexcept {
  try {
    while (gives_way == nullptr || gives_way->idle_cores_.load(std::memory_order_relaxed) >= 0) {
      const std::size_t part = next.fetch_add(1, std::memory_order_relaxed);
      if (part >= parts) return;
      call(work, part, worker);
    }
  } catch (...) {
    next.store(parts, std::memory_order_relaxed);
    if (!failed.exchange(true)) failure = std::current_exception();
  }
}

void Team::count_idle_cores() {
  idle_cores_ = static_cast<int>(cores_) - static_cast<int>(passes_) - static_cast<int>(helping_);
}

void Team::begin_pass() {
  const std::lock_guard lock(mutex_);
  ++passes_;
  if (is_crowded()) lone_passes_ = 0;
  count_idle_cores();
}

void Team::end_pass() {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (!is_crowded() && lone_passes_ < lone_passes_min) ++lone_passes_;
    --passes_;
    count_idle_cores();
    wake = !regions_.empty();
    if (wake) ++changes_;
  }
  if (wake) changed_.notify_all();
}

void Team::open(Region& region) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    regions_.push_back(&region);
    ++changes_;
    wake = sleeping_ > 0 && passes_ + helping_ < cores_;
  }
  if (wake) changed_.notify_all();
}

// No helper enters any more; those inside are at their last part.
void Team::close(Region& region) {
  {
    const std::lock_guard lock(mutex_);
    regions_.erase(std::find(regions_.begin(), regions_.end(), &region));
  }
  for (int looks = 0; region.helpers.load(std::memory_order_acquire) > 0; ++looks) {
    if (looks < looks_before_sleep)
      pause_briefly();
    else
      std::this_thread::yield();
  }
}

void Team::help(std::uint32_t worker) {
  pthread_setname_np(pthread_self(), "troupe-helper");  // shown by profilers
  bind_to_cpus(cpus_);
  std::unique_lock lock(mutex_);
  for (;;) {
    const std::uint32_t seen = changes_;
    if (Region* region = find_region()) {
      ++helping_;
      count_idle_cores();
      ++region->helpers;
      lock.unlock();
      region->take_parts(worker, this);
      region->helpers.fetch_sub(1, std::memory_order_release);  // the region may be destroyed from here on
      lock.lock();
      --helping_;
      count_idle_cores();
    } else if (!await_change(lock, seen)) {
      return;
    }
  }
}

// Returns a region with parts left, if a core is free for it.
Team::Region* Team::find_region() {
  if (passes_ + helping_ >= cores_) return nullptr;
  for (Region* region : regions_)
    if (region->next.load(std::memory_order_relaxed) < region->parts) return region;
  return nullptr;
}

// Returns false when the team ends.
bool Team::await_change(std::unique_lock<std::mutex>& lock, std::uint32_t seen) {
  if (passes_ > 0 && idle_cores_ > 0) {
    lock.unlock();
    for (int looks = 0; looks < looks_before_sleep && changes_ == seen && idle_cores_ > 0; ++looks)
      pause_briefly();
    lock.lock();
  }
  ++sleeping_;
  changed_.wait(lock, [&] { return stopping_ || changes_ != seen; });
  --sleeping_;
  return !stopping_;
}

std::uint32_t Team::Pass::workers() const {
  if (team_.cores_ == 1) return 1;
  const std::lock_guard lock(team_.mutex_);
  return team_.cores_ - std::min(team_.cores_ - 1, team_.passes_ - 1 + team_.helping_);
}

Teams make_teams(std::uint32_t cores, std::uint32_t executors, const std::vector<CpuSet>& nodes) {
  Teams teams;
  const double lone = cores > 1 ? fitted_split() : Team::worth_helping, shared = shared_factor * lone;
  if (nodes.empty() || executors < nodes.size() || cores < nodes.size()) {
    teams.push_back(std::make_unique<Team>(cores, CpuSet(), lone, shared));
    return teams;
  }
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const auto here = static_cast<std::uint32_t>(nodes[node].size());
    const auto share =
        static_cast<std::uint32_t>(cores * (node + 1) / nodes.size() - cores * node / nodes.size());
    teams.push_back(std::make_unique<Team>(std::clamp(share, 1u, here), nodes[node], lone, shared));
  }
  return teams;
}

}  // namespace troupe::kernels
