#include "kernels/cuda/emulator.h"

#include <algorithm>
#include <array>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>
#include <exception>
#include <memory>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/cuda/fiber_notes_inl.h"

namespace troupe::kernels::cuda::emulator {
namespace {

constexpr unsigned warp_threads = 32, threads_max = 1024;
constexpr std::size_t shared_bytes_max = 227 * 1024;  // of sm_90; sm_80 has 163 KiB
constexpr int poison = 0xff;                          // NaN in every format

// Thrown through the threads of a block that is given up.
struct GivenUp {};

struct PendingCopy {
  std::uint32_t to;
  const void* from;  // null: zeros
  std::size_t bytes;
  unsigned group;
};

enum class State { ready, at_warp, at_block, done };

// A thread of the block, with a stack that it keeps from block to block.
class Thread {
 public:
  explicit Thread(unsigned number)
      : number_(number), fiber_(std::allocator_arg, Stack(notes_), [this](Fiber&& caller) {
          notes_.entered();
          caller_ = std::move(caller);
          for (yield(); !quit_; yield()) live();
          notes_.leave_for_good();
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
  }
  bool inside() const { return inside_; }  // body has begun and has not ended
  void resume() {
    notes_.enter();
    fiber_ = std::move(fiber_).resume();
    notes_.returned();
  }
  // Device code's way back to the scheduler.
  void meet(State where) {
    state = where;
    yield();
    if (give_up) throw GivenUp();
  }
  unsigned number() const { return number_; }

  State state = State::done;
  bool give_up = false;
  std::exception_ptr error;
  const WarpOperation* operation = nullptr;
  void* operands = nullptr;
  bool vote = false;
  std::vector<PendingCopy> copies;
  unsigned group = 0;

 private:
  using Fiber = boost::context::fiber;

  // A guarded stack whose bounds the sanitizers are told.
  struct Stack {
    explicit Stack(FiberNotes& bounds_told) : notes(&bounds_told) {}
    boost::context::stack_context allocate() {
      const auto stack = guarded.allocate();
      notes->stack(static_cast<char*>(stack.sp) - stack.size, stack.size);
      return stack;
    }
    void deallocate(boost::context::stack_context& stack) { guarded.deallocate(stack); }
    boost::context::protected_fixedsize_stack guarded{stack_bytes};
    FiberNotes* notes;
  };

  void live() {
    inside_ = true;
    try {
      (*body_)();
    } catch (const GivenUp&) {
    } catch (...) {
      error = std::current_exception();
    }
    inside_ = false;
    state = State::done;
  }
  void yield() {
    notes_.leave();
    caller_ = std::move(caller_).resume();
    notes_.entered();
  }

  unsigned number_;
  bool quit_ = false, inside_ = false;
  const std::function<void()>* body_ = nullptr;
  FiberNotes notes_;
  Fiber caller_, fiber_;
};

// What one host thread emulates with. Blocks come one after another.
class Machine {
 public:
  void run(const Grid& grid, const std::function<void()>& body);

  Thread& thread() { return *running_; }
  const Place& place() const { return place_; }
  std::byte* shared(std::uint32_t address, std::size_t bytes, std::size_t alignment);
  std::uint32_t variable(const void* key, std::size_t bytes);
  std::uint32_t dynamic(std::size_t offset, std::size_t bytes);

  template <class Fault>
  [[noreturn]] void fault(const std::string& what, unsigned thread) const {
    throw Fault(std::string(grid_.kernel) + ", block (" + std::to_string(place_.block_x) + ", " +
                std::to_string(place_.block_y) + "), thread " + std::to_string(thread) + ": " + what);
  }

  Counts counts;
  bool vote = false;  // of the barrier last passed

 private:
  void run_block(const std::function<void()>& body);
  void run_warp(unsigned warp);
  bool meet_in_warp(Thread* const* lanes);
  void pass_barrier();
  void give_up();

  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> lanes_;  // of the block, in order
  std::vector<unsigned> warp_order_;
  std::minstd_rand chance_{1};
  Thread* running_ = nullptr;
  Grid grid_;
  Place place_;
  std::vector<std::byte> shared_;  // dynamic first, then variables
  std::size_t shared_used_ = 0;
  std::unordered_map<const void*, std::uint32_t> variables_;
};

thread_local Machine machine;

void Machine::run(const Grid& grid, const std::function<void()>& body) {
  grid_ = grid;
  place_ = {0, 0, 0, grid.blocks_x, grid.threads};
  if (grid.threads == 0 || grid.threads > threads_max || grid.threads % warp_threads != 0)
    fault<KernelFault>(std::to_string(grid.threads) + " threads; expected a multiple of 32 up to 1024", 0);
  if (grid.blocks_x == 0 || grid.blocks_y == 0 || grid.blocks_y > 65535)
    fault<KernelFault>("a grid of no blocks, or of more than 65535 in y", 0);
  if (grid.shared_bytes > shared_bytes_max)
    fault<BoundsFault>(std::to_string(grid.shared_bytes) + " bytes of shared memory; expected up to " +
                           std::to_string(shared_bytes_max),
                       0);
  for (unsigned i = static_cast<unsigned>(threads_.size()); i < grid.threads; ++i)
    threads_.push_back(std::make_unique<Thread>(i));
  lanes_.clear();
  for (unsigned i = 0; i < grid.threads; ++i) lanes_.push_back(threads_[i].get());
  warp_order_.resize(grid.threads / warp_threads);
  for (unsigned i = 0; i < warp_order_.size(); ++i) warp_order_[i] = i;
  ++counts.launches;
  for (place_.block_y = 0; place_.block_y < grid.blocks_y; ++place_.block_y)
    for (place_.block_x = 0; place_.block_x < grid.blocks_x; ++place_.block_x) run_block(body);
}

void Machine::run_block(const std::function<void()>& body) {
  ++counts.blocks;
  shared_.assign(shared_bytes_max, std::byte{poison});
  shared_used_ = (grid_.shared_bytes + 127) / 128 * 128;
  variables_.clear();
  for (Thread* thread : lanes_) thread->begin(body);
  try {
    for (;;) {
      std::shuffle(warp_order_.begin(), warp_order_.end(), chance_);
      for (const unsigned warp : warp_order_) run_warp(warp);
      if (std::all_of(lanes_.begin(), lanes_.end(), [](Thread* t) { return t->state == State::done; }))
        return;
      pass_barrier();
    }
  } catch (...) {
    give_up();
    throw;
  }
}

// Until all its lanes are at a barrier or done.
void Machine::run_warp(unsigned warp) {
  Thread* const* lanes = &lanes_[warp * warp_threads];
  do {
    for (unsigned i = 0; i < warp_threads; ++i) {
      if (lanes[i]->state != State::ready) continue;
      running_ = lanes[i];
      place_.thread = running_->number();
      running_->resume();
      if (running_->error) std::rethrow_exception(running_->error);
    }
  } while (meet_in_warp(lanes));
}

// Whether there was a warp operation; then it was run.
bool Machine::meet_in_warp(Thread* const* lanes) {
  Thread* const* const end = lanes + warp_threads;
  Thread* const* first = std::find_if(lanes, end, [](Thread* t) { return t->state == State::at_warp; });
  if (first == end) return false;
  std::array<void*, warp_threads> operands;
  for (unsigned i = 0; i < warp_threads; ++i) {
    const bool here = lanes[i]->state == State::at_warp && lanes[i]->operation == (*first)->operation;
    if (!here)
      fault<DivergenceFault>(std::string("absent from ") + (*first)->operation->name + " of thread " +
                                 std::to_string((*first)->number()),
                             lanes[i]->number());
    operands[i] = lanes[i]->operands;
  }
  (*first)->operation->run(operands.data());
  for (unsigned i = 0; i < warp_threads; ++i) lanes[i]->state = State::ready;
  return true;
}

void Machine::pass_barrier() {
  ++counts.barriers;
  vote = false;
  for (Thread* thread : lanes_) {
    if (thread->state != State::at_block)
      fault<DivergenceFault>("ended without the barrier that others wait at", thread->number());
    vote = vote || thread->vote;
  }
  for (Thread* thread : lanes_) thread->state = State::ready;
}

void Machine::give_up() {
  for (Thread* thread : lanes_) {
    running_ = thread;
    thread->give_up = true;
    if (thread->inside()) thread->resume();
    thread->give_up = false;
    thread->state = State::done;
  }
}

std::byte* Machine::shared(std::uint32_t address, std::size_t bytes, std::size_t alignment) {
  if (address > shared_used_ || bytes > shared_used_ - address)
    fault<BoundsFault>("reads or writes outside its shared memory", place_.thread);
  if (address % alignment != 0)
    fault<AlignmentFault>("shared memory address not a multiple of " + std::to_string(alignment),
                          place_.thread);
  return shared_.data() + address;
}

std::uint32_t Machine::variable(const void* key, std::size_t bytes) {
  const auto [at, fresh] = variables_.try_emplace(key, static_cast<std::uint32_t>(shared_used_));
  if (fresh) shared_used_ += (bytes + 15) / 16 * 16;
  if (shared_used_ > shared_.size()) fault<BoundsFault>("too many variables in shared memory", place_.thread);
  return at->second;
}

std::uint32_t Machine::dynamic(std::size_t offset, std::size_t bytes) {
  if (offset > grid_.shared_bytes || bytes > grid_.shared_bytes - offset)
    fault<BoundsFault>("dynamic shared memory up to byte " + std::to_string(offset + bytes) +
                           "; launched with " + std::to_string(grid_.shared_bytes),
                       place_.thread);
  return static_cast<std::uint32_t>(offset);
}

}  // namespace

Counts counts() { return machine.counts; }
const Place& place() { return machine.place(); }

void meet_warp(const WarpOperation& operation, void* operands) {
  Thread& thread = machine.thread();
  thread.operation = &operation;
  thread.operands = operands;
  thread.meet(State::at_warp);
}

bool meet_block(bool value) {
  Thread& thread = machine.thread();
  thread.vote = value;
  thread.meet(State::at_block);
  return machine.vote;
}

std::byte* shared_memory(std::uint32_t address, std::size_t bytes, std::size_t alignment) {
  return machine.shared(address, bytes, alignment);
}
std::uint32_t shared_variable(const void* key, std::size_t bytes) { return machine.variable(key, bytes); }
std::uint32_t dynamic_shared(std::size_t offset, std::size_t bytes) { return machine.dynamic(offset, bytes); }

void copy_async(std::uint32_t to, const void* from, std::size_t bytes, bool present) {
  std::memset(machine.shared(to, bytes, bytes), poison, bytes);
  const unsigned thread = machine.place().thread;
  if (reinterpret_cast<std::uintptr_t>(from) % bytes != 0)
    machine.fault<AlignmentFault>("copies from an address not a multiple of " + std::to_string(bytes),
                                  thread);
  if (present && !is_device_memory(from, bytes))
    machine.fault<BoundsFault>("copies from outside device memory", thread);
  Thread& mine = machine.thread();
  mine.copies.push_back({to, present ? from : nullptr, bytes, mine.group});
  ++machine.counts.copies;
}

void copy_async_commit() { ++machine.thread().group; }

void copy_async_wait(unsigned groups_left) {
  Thread& mine = machine.thread();
  std::erase_if(mine.copies, [&](const PendingCopy& copy) {
    if (copy.group + groups_left >= mine.group) return false;
    std::byte* const to = machine.shared(copy.to, copy.bytes, copy.bytes);
    copy.from == nullptr ? std::memset(to, 0, copy.bytes) : std::memcpy(to, copy.from, copy.bytes);
    return true;
  });
}

void count_multiply_add() { ++machine.counts.multiply_adds; }

// A matrix is eight rows of 16 bytes, which fill the 32 banks of 4 bytes once if no two share banks.
void count_matrix_load(const std::uint32_t (&rows)[32]) {
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    unsigned passes[8] = {};
    for (unsigned i = 0; i < 8; ++i) {
      const std::uint32_t* const first = rows + 8 * matrix;
      const bool again = std::find(first, first + i, first[i]) != first + i;  // the same 16 bytes come along
      if (!again) ++passes[first[i] / 16 % 8];
    }
    ++machine.counts.matrix_loads;
    machine.counts.bank_conflicts += *std::max_element(passes, passes + 8) - 1;
  }
}

void run(const Grid& grid, const std::function<void()>& body) { machine.run(grid, body); }

}  // namespace troupe::kernels::cuda::emulator
