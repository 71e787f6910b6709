// Runs CUDA kernels on the CPU for tests: a block's threads are fibers that switch where they
// synchronize. It reports errors that a GPU hides by luck, such as a barrier that not all threads
// reach.
#include "kernels/cuda/simt/emulator.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>

#include "kernels/base/check.h"
#include "kernels/cuda/simt/emulator_machine.h"

namespace troupe::kernels::cuda::emulator {

namespace {

std::atomic<std::uint64_t>& seed() {
  static std::atomic<std::uint64_t> seed{std::random_device{}()};
  return seed;
}

}  // namespace

std::uint64_t schedule_seed() { return seed(); }
void use_schedule_seed(std::uint64_t given) { seed() = given; }

Machine& machine() {
  static thread_local Machine machine;
  return machine;
}

void Machine::run(const Grid& grid, const std::function<void()>& body) {
  grid_ = grid;
  device_ = device_properties(0);
  thread_index_ = {0, 0, 0, grid.blocks_x, grid.threads};
  if (grid.threads == 0 || grid.threads > threads_max || grid.threads % warp_threads != 0)
    fault<KernelFault>(std::to_string(grid.threads) + " threads; expected a multiple of 32 up to 1024", 0);
  if (grid.blocks_x == 0 || grid.blocks_y == 0 || grid.blocks_y > 65535)
    fault<KernelFault>("a grid of no blocks, or of more than 65535 in y", 0);
  const std::size_t most =
      std::min(device_.block_shared_bytes_max, device_.multiprocessor_shared_bytes - block_reserve_bytes);
  if (grid.shared_bytes > most)
    fault<BoundsFault>(std::to_string(grid.shared_bytes) + " bytes of shared memory; expected up to " +
                           std::to_string(most) + " of " + device_.name,
                       0);
  for (unsigned i = static_cast<unsigned>(threads_.size()); i < grid.threads; ++i)
    threads_.push_back(std::make_unique<Thread>(i));
  lanes_.clear();
  for (unsigned i = 0; i < grid.threads; ++i) lanes_.push_back(threads_[i].get());
  warp_order_.resize(grid.threads / warp_threads);
  for (unsigned i = 0; i < warp_order_.size(); ++i) warp_order_[i] = i;
  ++counts.launches;
  for (thread_index_.block_y = 0; thread_index_.block_y < grid.blocks_y; ++thread_index_.block_y)
    for (thread_index_.block_x = 0; thread_index_.block_x < grid.blocks_x; ++thread_index_.block_x)
      run_block(body);
}

void Machine::run_block(const std::function<void()>& body) {
  ++counts.blocks;
  shared_.assign(device_.block_shared_bytes_max, std::byte{poison});
  shared_used_ = (grid_.shared_bytes + 127) / 128 * 128;
  variables_.clear();
  async = {};
  for (Thread* thread : lanes_) thread->begin(body);
  const auto all = [&](State state) {
    return std::all_of(lanes_.begin(), lanes_.end(), [&](Thread* t) { return t->state == state; });
  };
  try {
    while (!all(State::done)) {
      std::shuffle(warp_order_.begin(), warp_order_.end(), chance_);
      bool moved = false;
      for (const unsigned warp : warp_order_) moved = run_warp(warp) || moved;
      for (std::size_t first = 0; first + group_threads <= lanes_.size(); first += group_threads)
        moved = run_group_operation(&lanes_[first]) || moved;
      if (all(State::at_block) || !moved) pass_barrier();
    }
    check_async_ended();
  } catch (...) {
    aborted();
    throw;
  }
}

// Runs until all lanes of the warp wait for others or are done; returns whether anything ran.
bool Machine::run_warp(unsigned warp) {
  Thread* const* lanes = &lanes_[warp * warp_threads];
  bool moved = false;
  do {
    for (unsigned i = 0; i < warp_threads; ++i) {
      if (lanes[i]->state != State::ready) continue;
      moved = true;
      running_ = lanes[i];
      thread_index_.thread = running_->number();
      running_->resume();
      if (running_->error) std::rethrow_exception(running_->error);
    }
  } while (run_warp_operation(lanes));
  return moved;
}

// Runs a warp operation if all lanes wait at it; returns whether it did. Lanes that wait for a
// phase may still arrive.
bool Machine::run_warp_operation(Thread* const* lanes) {
  Thread* const* const end = lanes + warp_threads;
  Thread* const* first = std::find_if(lanes, end, [](Thread* t) { return t->state == State::at_warp; });
  if (first == end || std::any_of(lanes, end, [](Thread* t) { return t->state == State::at_phase; }))
    return false;
  std::array<void*, warp_threads> operands;
  for (unsigned i = 0; i < warp_threads; ++i) {
    if (lanes[i]->state != State::at_warp || lanes[i]->operation != (*first)->operation)
      report_absent(**first, warp_threads);
    operands[i] = lanes[i]->operands;
  }
  (*first)->operation->run(operands.data());
  for (unsigned i = 0; i < warp_threads; ++i) lanes[i]->state = State::ready;
  return true;
}

// Does the same for a warpgroup, whose threads arrive in any order.
bool Machine::run_group_operation(Thread* const* threads) {
  std::array<void*, group_threads> operands;
  for (unsigned i = 0; i < group_threads; ++i) {
    if (threads[i]->state != State::at_group) return false;
    operands[i] = threads[i]->operands;
  }
  thread_index_.thread = threads[0]->number();
  for (unsigned i = 0; i < group_threads; ++i)
    if (threads[i]->operation != threads[0]->operation) report_absent(*threads[0], group_threads);
  threads[0]->operation->run(operands.data());
  for (unsigned i = 0; i < group_threads; ++i) threads[i]->state = State::ready;
  return true;
}

// Reports the first thread of the waiting thread's warp or warpgroup that did not reach its
// operation.
void Machine::report_absent(const Thread& waiting, unsigned threads) const {
  for (unsigned i = waiting.number() / threads * threads; i < lanes_.size(); ++i)
    if (lanes_[i]->state != waiting.state || lanes_[i]->operation != waiting.operation)
      fault<DivergenceFault>(std::string("absent from ") + waiting.operation->name + " of thread " +
                                 std::to_string(waiting.number()),
                             lanes_[i]->number());
  fault<DivergenceFault>(std::string(waiting.operation->name) + " in a warpgroup that is not whole",
                         waiting.number());
}

// Reports why no thread can continue, unless all wait at the block's barrier.
void Machine::check_stuck() const {
  for (const Thread* thread : lanes_) {
    if (thread->state == State::at_group) report_absent(*thread, group_threads);
    if (thread->state == State::at_named) {
      const NamedBarrier& barrier = async.named[thread->waits_at];
      fault<StuckFault>("waits at barrier " + std::to_string(thread->waits_at) + ", where " +
                            std::to_string(barrier.came) + " of " + std::to_string(barrier.threads) +
                            " threads came",
                        thread->number());
    }
  }
  for (const Thread* thread : lanes_) {
    if (thread->state != State::at_phase) continue;
    const Mbarrier& barrier = async.mbarriers.at(thread->waits_at);
    fault<StuckFault>("waits for a phase of the mbarrier at byte " + std::to_string(thread->waits_at) +
                          " that never ends: " + std::to_string(barrier.missing) + " arrivals and " +
                          std::to_string(barrier.missing_bytes) + " bytes are missing",
                      thread->number());
  }
}

void Machine::pass_barrier() {
  check_stuck();
  ++counts.barriers;
  vote = false;
  for (Thread* thread : lanes_) {
    if (thread->state != State::at_block)
      fault<DivergenceFault>("ended without the barrier that others wait at", thread->number());
    vote = vote || thread->vote;
  }
  for (Thread* thread : lanes_) thread->state = State::ready;
}

void Machine::aborted() {
  for (Thread* thread : lanes_) {
    running_ = thread;
    thread->aborted = true;
    if (thread->inside()) thread->resume();
    thread->aborted = false;
    thread->state = State::done;
  }
}

std::byte* Machine::shared(std::uint32_t address, std::size_t bytes, std::size_t alignment) {
  if (address > shared_used_ || bytes > shared_used_ - address)
    fault<BoundsFault>("reads or writes outside its shared memory", thread_index_.thread);
  if (address % alignment != 0)
    fault<AlignmentFault>("shared memory address not a multiple of " + std::to_string(alignment),
                          thread_index_.thread);
  return shared_.data() + address;
}

std::uint32_t Machine::variable(const void* key, std::size_t bytes) {
  const auto [at, fresh] = variables_.try_emplace(key, static_cast<std::uint32_t>(shared_used_));
  if (fresh) shared_used_ += (bytes + 15) / 16 * 16;
  if (shared_used_ > shared_.size())
    fault<BoundsFault>("too many variables in shared memory", thread_index_.thread);
  return at->second;
}

std::uint32_t Machine::dynamic(std::size_t offset, std::size_t bytes) {
  if (offset > grid_.shared_bytes || bytes > grid_.shared_bytes - offset)
    fault<BoundsFault>("dynamic shared memory up to byte " + std::to_string(offset + bytes) +
                           "; launched with " + std::to_string(grid_.shared_bytes),
                       thread_index_.thread);
  return static_cast<std::uint32_t>(offset);
}

Counts counts() { return machine().counts; }
const ThreadIndex& place() { return machine().place(); }

void sync_warp(const WarpOperation& operation, void* operands) {
  Thread& thread = machine().thread();
  thread.operation = &operation;
  thread.operands = operands;
  thread.wait_at(State::at_warp);
}

bool sync_block(bool value) {
  Thread& thread = machine().thread();
  thread.vote = value;
  thread.wait_at(State::at_block);
  return machine().vote;
}

std::byte* shared_memory(std::uint32_t address, std::size_t bytes, std::size_t alignment) {
  return machine().shared(address, bytes, alignment);
}
std::byte* shared_element(std::uint32_t address, std::size_t bytes, std::size_t alignment) {
  std::byte* const at = machine().shared(address, bytes, alignment);
  machine().thread().touch(address, bytes);
  return at;
}
std::uint32_t shared_variable(const void* key, std::size_t bytes) { return machine().variable(key, bytes); }
std::uint32_t dynamic_shared(std::size_t offset, std::size_t bytes) {
  return machine().dynamic(offset, bytes);
}

void copy_async(std::uint32_t to, const void* from, std::size_t bytes, bool present) {
  std::memset(machine().shared(to, bytes, bytes), poison, bytes);
  const unsigned thread = machine().place().thread;
  if (reinterpret_cast<std::uintptr_t>(from) % bytes != 0)
    machine().fault<AlignmentFault>("copies from an address not a multiple of " + std::to_string(bytes),
                                    thread);
  if (present && !is_device_memory(from, bytes))
    machine().fault<BoundsFault>("copies from outside device memory", thread);
  Thread& mine = machine().thread();
  mine.copies.push_back({to, present ? from : nullptr, bytes, mine.group});
  ++machine().counts.copies;
}

void copy_async_commit() { ++machine().thread().group; }

void copy_async_wait(unsigned groups_left) {
  Thread& mine = machine().thread();
  std::erase_if(mine.copies, [&](const PendingCopy& copy) {
    if (copy.group + groups_left >= mine.group) return false;
    std::byte* const to = machine().shared(copy.to, copy.bytes, copy.bytes);
    copy.from == nullptr ? std::memset(to, 0, copy.bytes) : std::memcpy(to, copy.from, copy.bytes);
    mine.touch(copy.to, copy.bytes);
    return true;
  });
}

void count_multiply_add() { ++machine().counts.multiply_adds; }

// Counts bank conflicts. A matrix is eight rows of 16 bytes, which fill the 32 banks of 4 bytes
// once if no two share banks.
void count_matrix_load(const std::uint32_t (&rows)[32]) {
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    unsigned passes[8] = {};
    for (unsigned i = 0; i < 8; ++i) {
      const std::uint32_t* const first = rows + 8 * matrix;
      // Equal addresses are loaded once.
      const bool again = std::find(first, first + i, first[i]) != first + i;
      if (!again) ++passes[first[i] / 16 % 8];
    }
    ++machine().counts.matrix_loads;
    machine().counts.bank_conflicts += *std::max_element(passes, passes + 8) - 1;
  }
}

void run(const Grid& grid, const std::function<void()>& body) { machine().run(grid, body); }

}  // namespace troupe::kernels::cuda::emulator
