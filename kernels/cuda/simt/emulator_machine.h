#pragma once
// Declares the emulator's internals: its threads and the machine that runs them. Only emulator*.cc
// include it.
#include <array>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/simt/device_emulated.h"
#include "kernels/cuda/simt/emulator.h"
#include "kernels/cuda/simt/emulator_async.h"
#include "kernels/cuda/simt/fiber_sanitizer_inl.h"

namespace troupe::kernels::cuda::emulator {

inline constexpr unsigned warp_threads = 32, threads_max = 1024;
inline constexpr std::size_t shared_bytes_max = 227 * 1024;  // of any device
inline constexpr std::size_t block_reserve_bytes = 1024;     // reserved by a multiprocessor for each block
inline constexpr std::size_t granule_bytes = 16;             // of shared memory
inline constexpr int poison = 0xff;                          // NaN in every format

// Thrown through the threads of an abandoned block.
struct BlockAborted {};

struct PendingCopy {
  std::uint32_t to;
  const void* from;  // null: zeros
  std::size_t bytes;
  unsigned group;
};

enum class State { ready, at_warp, at_group, at_block, at_phase, at_named, done };

// A thread of the block; it keeps its stack from block to block.
class Thread {
 public:
  explicit Thread(unsigned number)
      : number_(number), fiber_(std::allocator_arg, Stack(sanitizer_), [this](Fiber&& caller) {
          sanitizer_.entered();
          caller_ = std::move(caller);
          for (yield(); !quit_; yield()) live();
          sanitizer_.leave_for_good();
          return std::move(caller_);
        }) {
    resume();
  }
  ~Thread() {
    quit_ = true;
    resume();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void begin(const std::function<void()>& body) {
    body_ = &body;
    state = State::ready;
    error = nullptr;
    copies.clear();
    group = 0;
    touched.fill(0);
  }
  bool inside() const { return inside_; }  // the body has begun and not ended
  void resume() {
    sanitizer_.enter();
    fiber_ = std::move(fiber_).resume();
    sanitizer_.returned();
  }
  // Switches from device code to the scheduler.
  void wait_at(State where) {
    state = where;
    yield();
    if (aborted) throw BlockAborted();
  }
  void touch(std::uint32_t address, std::size_t bytes) {
    for (std::size_t g = address / granule_bytes; g <= (address + bytes - 1) / granule_bytes; ++g)
      touched[g / 64] |= std::uint64_t{1} << g % 64;
  }
  unsigned number() const { return number_; }

  State state = State::done;
  bool aborted = false;
  std::exception_ptr error;
  const WarpOperation* operation = nullptr;
  void* operands = nullptr;
  bool vote = false;
  std::vector<PendingCopy> copies;
  unsigned group = 0;
  std::uint32_t waits_at = 0;  // an mbarrier's address, or a named barrier
  unsigned parity = 0;
  // Granules that it wrote, or may have written, since its last fence_async.
  std::array<std::uint64_t, shared_bytes_max / granule_bytes / 64 + 1> touched{};

 private:
  using Fiber = boost::context::fiber;

  // A guarded stack whose bounds are reported to the sanitizers.
  struct Stack {
    explicit Stack(FiberSanitizer& bounds) : notes(&bounds) {}
    boost::context::stack_context allocate() {
      const auto stack = guarded.allocate();
      notes->stack(static_cast<char*>(stack.sp) - stack.size, stack.size);
      return stack;
    }
    void deallocate(boost::context::stack_context& stack) {
      FiberSanitizer::stack_gone(static_cast<char*>(stack.sp) - stack.size, stack.size);
      guarded.deallocate(stack);
    }
    boost::context::protected_fixedsize_stack guarded{stack_bytes};
    FiberSanitizer* notes;
  };

  void live() {
    inside_ = true;
    try {
      (*body_)();
    } catch (const BlockAborted&) {
    } catch (...) {
      error = std::current_exception();
    }
    inside_ = false;
    state = State::done;
  }
  void yield() {
    sanitizer_.leave();
    caller_ = std::move(caller_).resume();
    sanitizer_.entered();
  }

  unsigned number_;
  bool quit_ = false, inside_ = false;
  const std::function<void()>* body_ = nullptr;
  FiberSanitizer sanitizer_;
  Fiber caller_, fiber_;
};

// The emulator of one host thread; runs blocks one after another.
class Machine {
 public:
  void run(const Grid& grid, const std::function<void()>& body);

  Thread& thread() { return *running_; }
  const ThreadIndex& place() const { return thread_index_; }
  std::byte* shared(std::uint32_t address, std::size_t bytes, std::size_t alignment);
  const std::byte* shared_granule(std::size_t at) const { return &shared_[at]; }
  std::uint32_t variable(const void* key, std::size_t bytes);
  std::uint32_t dynamic(std::size_t offset, std::size_t bytes);
  // Resumes threads that wait at this mbarrier or named barrier and for which `over` returns true.
  template <class Over>
  void release(State where, std::uint32_t waits_at, const Over& over) {
    for (Thread* thread : lanes_)
      if (thread->state == where && thread->waits_at == waits_at && over(*thread))
        thread->state = State::ready;
  }

  template <class Fault>
  [[noreturn]] void fault(const std::string& what, unsigned thread) const {
    throw Fault(std::string(grid_.kernel) + ", block (" + std::to_string(thread_index_.block_x) + ", " +
                std::to_string(thread_index_.block_y) + "), thread " + std::to_string(thread) + ": " + what +
                " (schedule seed " + std::to_string(schedule_seed()) + ")");
  }
  // Throws unless the device has the features of sm_90a.
  void require_hopper(const char* word) const {
    if (device_.capability != 90)
      fault<KernelFault>(std::string(word) + ", on a device of capability " +
                             std::to_string(device_.capability) + "; expected 90",
                         thread_index_.thread);
  }

  Counts counts;
  bool vote = false;  // result of the last barrier
  AsyncState async;   // of the block

 private:
  void run_block(const std::function<void()>& body);
  bool run_warp(unsigned warp);
  bool run_warp_operation(Thread* const* lanes);
  bool run_group_operation(Thread* const* threads);
  void pass_barrier();
  [[noreturn]] void report_absent(const Thread& waiting, unsigned threads) const;
  void check_stuck() const;
  void aborted();

  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> lanes_;  // of the block, in order
  std::vector<unsigned> warp_order_;
  std::mt19937_64 chance_{schedule_seed()};
  DeviceProperties device_;  // of the launch
  Thread* running_ = nullptr;
  Grid grid_;
  ThreadIndex thread_index_;
  std::vector<std::byte> shared_;  // dynamic memory first, then variables
  std::size_t shared_used_ = 0;
  std::unordered_map<const void*, std::uint32_t> variables_;
};

// Returns the calling thread's machine.
Machine& machine();

}  // namespace troupe::kernels::cuda::emulator
