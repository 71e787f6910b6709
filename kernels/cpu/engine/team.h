#pragma once
// The cores that the passes of a decoder, and of decoders shared from it, may use. A pass runs on
// the thread that began it; if fewer passes run than there are cores, helper threads take parts of
// its work. So a busy machine computes one request per core, undisturbed, and an idle one splits a
// request.
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/engine/memory_nodes.h"

namespace troupe::kernels {

class Team {
 public:
  // Waking a helper takes some microseconds, so work of fewer operations than this stays on its
  // thread: about 0.1 ms of one core.
  static constexpr double worth_helping = 1e7;
  // While passes use more than half of the cores, a helper takes a core that another pass is about to
  // use, which costs more than waking it. So many consecutive passes that left half of the cores idle
  // make a team lone (again).
  static constexpr std::uint32_t lone_passes_min = 16;

  // Starts cores - 1 threads, which sleep until there is work; `cores` is at least 1. Helpers are
  // bound to `cpus`; empty: not bound. Work is split from `lone` operations on while one pass at a time
  // runs, or passes leave half of the cores idle (split_fit.h), and from `shared` where more overlapped
  // lately.
  Team(std::uint32_t cores, CpuSet cpus, double lone, double shared);
  explicit Team(std::uint32_t cores, CpuSet cpus = {}, double operations_worth_helping = worth_helping)
      : Team(cores, std::move(cpus), operations_worth_helping, operations_worth_helping) {}
  ~Team();  // no pass may be under way
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  std::uint32_t cores() const { return cores_; }
  const CpuSet& cpus() const { return cpus_; }
  // Returns the operations from which work is split now.
  double worth_splitting() const {
    return lone_passes_.load(std::memory_order_relaxed) < lone_passes_min ? shared_ : lone_;
  }

  // Binds the calling thread, which runs passes, to the CPUs of the helpers.
  void bind_caller() const;

  class Pass;

 private:
  // Work that is open to helpers, on the stack of the thread that runs it.
  struct Region {
    void (*call)(void* work, std::size_t part, std::uint32_t worker);
    void* work;
    std::size_t parts;
    std::atomic<std::size_t> next = 0;
    std::atomic<std::uint32_t> helpers = 0;  // helpers inside; none enters once the region is closed

    std::atomic<bool> failed = false;
    std::exception_ptr failure = nullptr;  // the first one; later parts are skipped

    // Takes parts until none is left. With `gives_way`, also stops when passes need all cores of
    // that team.
    void take_parts(std::uint32_t worker, const Team* gives_way) noexcept;
  };

  void stop();
  void count_idle_cores();
  // True if passes overlap and use more than half of the cores.
  bool is_crowded() const { return passes_ > 1 && 2 * passes_ > cores_; }
  void begin_pass();
  void end_pass();
  void open(Region& region);
  void close(Region& region);
  void help(std::uint32_t worker);
  Region* find_region();
  bool await_change(std::unique_lock<std::mutex>& lock, std::uint32_t seen);

  const std::uint32_t cores_;
  const CpuSet cpus_;
  const double lone_, shared_;  // operations
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Region*> regions_;            // open ones
  std::uint32_t passes_ = 0, helping_ = 0;  // cores used by passes, and by helpers at work
  std::uint32_t sleeping_ = 0;
  std::atomic<std::uint32_t> changes_ = 0;
  std::atomic<std::uint32_t> lone_passes_ = lone_passes_min;  // consecutive ended ones, never crowded
  std::atomic<int> idle_cores_ = 0;  // cores used by neither passes nor helpers; below 0: one too many
  bool stopping_ = false;
  std::vector<std::thread> helpers_;
};

// One pass; it occupies a core during its lifetime.
class Team::Pass {
 public:
  explicit Pass(Team& team) : team_(team) { team_.begin_pass(); }
  ~Pass() { team_.end_pass(); }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  // Returns the number of threads that would take part in a region opened now, the caller included.
  std::uint32_t workers() const;

  // Calls work(part, worker) once for each part in [0, parts), in any order, and returns when all
  // are done. `worker` is below cores() and differs between concurrent calls; the calling thread's
  // is 0. `operations` is the cost of all parts together. If a part throws, later parts are
  // skipped, and the exception is rethrown once the parts under way have ended.
  template <class Work>
  void run(std::size_t parts, double operations, Work&& work) {
    if (parts > 1 && operations >= team_.worth_splitting() && team_.cores_ > 1) {
      Region region{[](void* w, std::size_t part, std::uint32_t worker) {
                      (*static_cast<std::remove_reference_t<Work>*>(w))(part, worker);
                    },
                    const_cast<void*>(static_cast<const void*>(&work)), parts};
      team_.open(region);
      region.take_parts(0, nullptr);
      team_.close(region);
      if (region.failure) std::rethrow_exception(region.failure);
      return;
    }
    for (std::size_t part = 0; part < parts; ++part) work(part, 0u);
  }

 private:
  Team& team_;
};

// Makes the teams of a decoder with `executors` executors: one for each memory node. They share the
// cores evenly; each gets at least one, and no more than the node has. If there are no nodes, or
// fewer executors or cores than nodes, makes one team without binding: a request is then split over
// all cores.
using Teams = std::vector<std::unique_ptr<Team>>;
Teams make_teams(std::uint32_t cores, std::uint32_t executors, const std::vector<CpuSet>& nodes);

}  // namespace troupe::kernels
