// Implements device.h for the emulator. Device memory is host memory that starts as NaN. A stream
// keeps its commands until a caller waits for them, so that a missing wait is noticed.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/device_lost.h"
#include "kernels/cuda/simt/device_emulated.h"
#include "kernels/cuda/simt/emulator.h"

namespace troupe::kernels::cuda {
namespace {

using Command = std::function<void()>;

constexpr std::align_val_t alignment{256};

// Guards everything below, since streams of several host threads may wait for each other.
std::recursive_mutex device_mutex;
std::map<const std::byte*, std::size_t>& allocations() {
  static std::map<const std::byte*, std::size_t> map;
  return map;
}
std::map<const std::byte*, std::size_t>& page_locks() {
  static std::map<const std::byte*, std::size_t> map;
  return map;
}
std::uint64_t commands_to_failure = 0;  // 0 = no command fails
bool failure_is_loss = false;

bool lies_in(const std::map<const std::byte*, std::size_t>& ranges, const void* memory, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(memory);
  auto next = ranges.upper_bound(first);
  if (next == ranges.begin()) return false;
  const auto& [start, size] = *--next;
  return first + bytes <= start + size;
}

// Guard bytes behind the end of an allocation, checked when the memory is freed.
constexpr std::size_t guard_bytes = 256;
constexpr std::byte guard_byte{0xa5};

std::byte* allocate(std::size_t bytes) {
  auto* const memory = static_cast<std::byte*>(::operator new(bytes + guard_bytes, alignment));
  std::memset(memory, 0xff, bytes);
  std::fill_n(memory + bytes, guard_bytes, guard_byte);
  return memory;
}
void release(std::byte* memory, std::size_t bytes) {
  TROUPE_CHECK(std::all_of(memory + bytes, memory + bytes + guard_bytes,
                           [](std::byte at) { return at == guard_byte; }),
               "nothing was written behind the end of device memory");
  ::operator delete(memory, alignment);
}

void check_device(const void* memory, std::size_t bytes, const char* call) {
  if (bytes > 0 && !emulator::is_device_memory(memory, bytes))
    throw DeviceError(std::string(call) + ": outside device memory");
}
void check_host(const void* memory, std::size_t bytes, const char* call) {
  if (bytes > 0 && emulator::is_device_memory(memory, 1))
    throw DeviceError(std::string(call) + ": device memory where host memory is expected");
}

}  // namespace

namespace {

DeviceProperties& emulated() {
  static DeviceProperties device = emulator::profile(90);
  return device;
}

}  // namespace

int device_count() { return 1; }
DeviceProperties device_properties(int) {
  const std::lock_guard lock(device_mutex);
  return emulated();
}
void use_device(int) {}
unsigned device_capability() { return device_properties(0).capability; }
unsigned device_multiprocessors() { return device_properties(0).multiprocessors; }
std::size_t free_device_bytes() {
  const std::lock_guard lock(device_mutex);
  std::size_t taken = 0;
  for (const auto& [memory, bytes] : allocations()) taken += bytes;
  const std::size_t all = device_properties(0).memory_bytes;
  return all - std::min(all, taken);
}

void FreeDeviceMemory::operator()(std::byte* memory) const {
  const std::lock_guard lock(device_mutex);
  const auto at = allocations().find(memory);
  TROUPE_CHECK(at != allocations().end(), "the freed address is device memory");
  release(memory, at->second);
  allocations().erase(at);
}
void FreePageLockedMemory::operator()(std::byte* memory) const { ::operator delete(memory, alignment); }

template <>
Memory<FreeDeviceMemory>::Memory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  at_.reset(allocate(bytes));
  const std::lock_guard lock(device_mutex);
  allocations().emplace(at_.get(), bytes);
}
template <>
Memory<FreePageLockedMemory>::Memory(std::size_t bytes) : bytes_(bytes) {
  if (bytes > 0) at_.reset(allocate(bytes));
}

PageLock::PageLock(std::byte* memory, std::size_t bytes) : memory_(bytes > 0 ? memory : nullptr) {
  const std::lock_guard lock(device_mutex);
  if (memory_ == nullptr) return;
  for (const auto& [start, size] : page_locks())
    if (start < memory + bytes && memory < start + size)
      throw DeviceError("page lock: part of this memory is locked already");
  page_locks().emplace(memory, bytes);
}
PageLock::~PageLock() {
  const std::lock_guard lock(device_mutex);
  page_locks().erase(memory_);
}

struct Stream::State {
  std::deque<Command> waiting;
  std::vector<Command>* recording = nullptr;

  void enqueue(Command command) {
    const std::lock_guard lock(device_mutex);
    if (recording != nullptr)
      recording->push_back(std::move(command));
    else
      waiting.push_back(std::move(command));
  }
  // Runs one command; returns false if there is none. Commands behind a failed one do not run.
  bool step() {
    if (waiting.empty()) return false;
    const Command command = std::move(waiting.front());
    waiting.pop_front();
    try {
      if (commands_to_failure > 0 && --commands_to_failure == 0) {
        if (failure_is_loss) device_lost("command: lost, as requested by a test");
        throw DeviceError("command: failed, as requested by a test");
      }
      command();
    } catch (...) {
      waiting.clear();
      throw;
    }
    return true;
  }
};

struct Event::State {
  Stream::State* stream = nullptr;  // the stream of the last record
  std::uint64_t recorded = 0, reached = 0;
  std::chrono::steady_clock::time_point at;

  void wait_for(std::uint64_t record) {
    const std::lock_guard lock(device_mutex);
    while (reached < record)
      if (!stream->step()) throw DeviceError("event: its stream has ended without it");
  }
};

Event::Event() : state_(new State) {}
Event::~Event() = default;
bool Event::reached() const { return state_->reached == state_->recorded; }
void Event::synchronize() const { state_->wait_for(state_->recorded); }
double Event::seconds_since(const Event& earlier) const {
  return std::chrono::duration<double>(state_->at - earlier.state_->at).count();
}

Stream::Stream() : state_(new State) {}
Stream::~Stream() = default;
void Stream::upload(void* device, const void* host, std::size_t bytes) {
  check_device(device, bytes, "upload");
  check_host(host, bytes, "upload");
  state_->enqueue([=] { std::memcpy(device, host, bytes); });
}
void Stream::download(void* host, const void* device, std::size_t bytes) {
  check_device(device, bytes, "download");
  check_host(host, bytes, "download");
  state_->enqueue([=] { std::memcpy(host, device, bytes); });
}
void Stream::copy(void* to_device, const void* from_device, std::size_t bytes) {
  check_device(to_device, bytes, "copy");
  check_device(from_device, bytes, "copy");
  state_->enqueue([=] { std::memmove(to_device, from_device, bytes); });
}
void Stream::clear(void* device, std::size_t bytes) {
  check_device(device, bytes, "clear");
  state_->enqueue([=] { std::memset(device, 0, bytes); });
}
void Stream::record(Event& event) {
  const std::lock_guard lock(device_mutex);
  Event::State& state = event.state();
  state.stream = state_.get();
  state_->enqueue([&state, record = ++state.recorded] {
    state.reached = record;
    state.at = std::chrono::steady_clock::now();
  });
}
void Stream::wait(const Event& event) {
  const std::lock_guard lock(device_mutex);
  state_->enqueue([&state = event.state(), record = event.state().recorded] { state.wait_for(record); });
}
void Stream::synchronize() {
  const std::lock_guard lock(device_mutex);
  while (state_->step()) {
  }
}
void* Stream::handle() const { return nullptr; }

struct Graph::State {
  std::vector<Command> commands;
};
Graph::Graph(Stream& stream, const std::function<void()>& record) : state_(new State) {
  struct Recording {
    Stream::State& stream;
    ~Recording() { stream.recording = nullptr; }
  } recording{stream.state()};
  stream.state().recording = &state_->commands;
  record();
}
Graph::~Graph() = default;
void Graph::launch(Stream& stream) const {
  for (const Command& command : state_->commands) stream.state().enqueue(command);
}

namespace emulator {

void enqueue(Stream& stream, std::function<void()> command) { stream.state().enqueue(std::move(command)); }

bool is_device_memory(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(device_mutex);
  return lies_in(allocations(), memory, bytes);
}

bool is_page_locked(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(device_mutex);
  return lies_in(page_locks(), memory, bytes);
}

// The technical specifications of the CUDA C++ Programming Guide, except the number of
// multiprocessors.
DeviceProperties profile(unsigned capability) {
  struct Limits {
    unsigned capability, multiprocessors;
    std::size_t block_kib, multiprocessor_kib;
  };
  constexpr Limits all[] = {{80, 5, 163, 164}, {86, 3, 99, 100}, {90, 4, 227, 228}};
  for (const Limits& limits : all)
    if (limits.capability == capability)
      return {"emulator of sm_" + std::to_string(capability),
              capability,
              limits.multiprocessors,
              std::size_t{1} << 30,
              1 << 20,
              limits.block_kib * 1024,
              limits.multiprocessor_kib * 1024};
  throw DeviceError("no profile of capability " + std::to_string(capability) + "; expected 80, 86 or 90");
}

void emulate(const DeviceProperties& device) {
  const std::lock_guard lock(device_mutex);
  emulated() = device;
}

void fail_command(std::uint64_t which, bool lost) {
  const std::lock_guard lock(device_mutex);
  commands_to_failure = which;
  failure_is_loss = lost;
}

}  // namespace emulator
}  // namespace troupe::kernels::cuda
