// Emulates operations that run beside the threads of a block: bulk copies, their barriers, and
// products of warpgroups. Results appear only at the wait, so that a missing wait is noticed.
#include "kernels/cuda/simt/emulator_async.h"

#include <bit>
#include <cstring>
#include <string>

#include "kernels/cuda/simt/emulator_machine.h"

namespace troupe::kernels::cuda::emulator {
namespace {

constexpr unsigned arrivals_max = (1u << 20) - 1;

unsigned running() { return machine().place().thread; }

Mbarrier& mbarrier_at(std::uint32_t at) {
  Machine& m = machine();
  const auto found = m.async.mbarriers.find(at);
  if (found == m.async.mbarriers.end())
    m.fault<OrderFault>("no mbarrier was made at byte " + std::to_string(at), running());
  Mbarrier& barrier = found->second;
  if (barrier.made_by != running() && barrier.made_after == m.counts.barriers)
    m.fault<OrderFault>("uses an mbarrier that no barrier has shown it yet", running());
  return barrier;
}

// Ends the phase if nothing is missing: copies land, and waiting threads continue.
void end_phase(std::uint32_t at, Mbarrier& barrier) {
  if (barrier.missing > 0 || barrier.missing_bytes != 0) return;
  Machine& m = machine();
  for (const BulkCopy& copy : barrier.copies) {
    std::byte* const to = m.shared(copy.to, copy.bytes, 16);
    std::memcpy(to, copy.from, copy.bytes);
    std::memcpy(async_view() + copy.to, copy.from, copy.bytes);
  }
  barrier.copies.clear();
  barrier.missing = barrier.arrivals;
  ++barrier.phase;
  m.release(State::at_phase, at, [&](Thread& t) { return barrier.phase % 2 != t.parity; });
}

}  // namespace

std::byte* async_view() {
  auto& view = machine().async.view;
  if (view.empty()) view.assign(shared_bytes_max, std::byte{poison});
  return view.data();
}

void fence_async() {
  Machine& m = machine();
  m.require_hopper("fence_async");
  std::byte* const view = async_view();
  auto& touched = m.thread().touched;
  for (std::size_t word = 0; word < touched.size(); ++word)
    for (; touched[word] != 0; touched[word] &= touched[word] - 1) {
      const std::size_t at = (word * 64 + std::countr_zero(touched[word])) * granule_bytes;
      std::memcpy(view + at, m.shared_granule(at), granule_bytes);
    }
  for (auto& [at, barrier] : m.async.mbarriers)
    if (barrier.made_by == running()) barrier.fenced = true;
}

void mbarrier_init(std::uint32_t at, unsigned arrivals) {
  Machine& m = machine();
  m.require_hopper("an mbarrier");
  m.shared(at, 8, 8);
  if (arrivals == 0 || arrivals > arrivals_max)
    m.fault<KernelFault>("an mbarrier of " + std::to_string(arrivals) + " arrivals", running());
  const auto [made, fresh] = m.async.mbarriers.try_emplace(at);
  if (!fresh) m.fault<OrderFault>("makes an mbarrier where there is one", running());
  made->second = {arrivals, arrivals, 0, 0, running(), m.counts.barriers, false, {}};
}

void mbarrier_arrive(std::uint32_t at, unsigned bytes) {
  Mbarrier& barrier = mbarrier_at(at);
  if (barrier.missing == 0)
    machine().fault<OrderFault>("arrives at an mbarrier whose phase lacks bytes, not arrivals", running());
  barrier.missing_bytes += bytes;
  --barrier.missing;
  end_phase(at, barrier);
}

void mbarrier_wait(std::uint32_t at, unsigned parity) {
  Machine& m = machine();
  if (mbarrier_at(at).phase % 2 != parity) return;
  m.thread().waits_at = at;
  m.thread().parity = parity;
  m.thread().wait_at(State::at_phase);
}

void copy_bulk(std::uint32_t to, const void* from, std::size_t bytes, std::uint32_t at) {
  Machine& m = machine();
  Mbarrier& barrier = mbarrier_at(at);
  if (!barrier.fenced)
    m.fault<OrderFault>("a bulk copy to an mbarrier that was made without a fence", running());
  if (bytes == 0 || bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    m.fault<AlignmentFault>("a bulk copy not in multiples of 16 bytes", running());
  std::byte* const destination = m.shared(to, bytes, 16);
  if (!is_device_memory(from, bytes)) m.fault<BoundsFault>("copies from outside device memory", running());
  std::memset(destination, poison, bytes);
  std::memset(async_view() + to, poison, bytes);
  barrier.copies.push_back({to, from, bytes});
  barrier.missing_bytes -= static_cast<std::int64_t>(bytes);
  ++m.counts.copies;
  end_phase(at, barrier);
}

void sync_named(unsigned number, unsigned threads, bool wait) {
  Machine& m = machine();
  m.require_hopper("a named barrier");
  if (number == 0 || number >= m.async.named.size() || threads == 0 || threads % warp_threads != 0)
    m.fault<KernelFault>("barrier " + std::to_string(number) + " of " + std::to_string(threads) +
                             " threads; expected 1 to 15, of whole warps",
                         running());
  NamedBarrier& barrier = m.async.named[number];
  if (barrier.came > 0 && barrier.threads != threads)
    m.fault<DivergenceFault>("comes to barrier " + std::to_string(number) + " of " + std::to_string(threads) +
                                 " threads, others of " + std::to_string(barrier.threads),
                             running());
  barrier.threads = threads;
  if (++barrier.came == threads) {
    barrier.came = 0;
    m.release(State::at_named, number, [](Thread&) { return true; });
  } else if (wait) {
    m.thread().waits_at = number;
    m.thread().wait_at(State::at_named);
  }
}

void sync_group(const WarpOperation& operation, void* operands) {
  machine().require_hopper(operation.name);
  Thread& thread = machine().thread();
  thread.operation = &operation;
  thread.operands = operands;
  thread.wait_at(State::at_group);
}

void check_async_ended() {
  Machine& m = machine();
  for (const auto& [at, barrier] : m.async.mbarriers)
    if (!barrier.copies.empty())
      m.fault<OrderFault>(
          "ended before a bulk copy to the mbarrier at byte " + std::to_string(at) + " landed",
          barrier.made_by);
  for (const NamedBarrier& barrier : m.async.named)
    if (barrier.came > 0)
      m.fault<DivergenceFault>("ended with " + std::to_string(barrier.came) + " of " +
                                   std::to_string(barrier.threads) + " threads at a named barrier",
                               0);
  for (const Warpgroup& group : m.async.groups)
    if (!group.products.empty()) m.fault<OrderFault>("ended before its products were waited for", 0);
}

}  // namespace troupe::kernels::cuda::emulator
