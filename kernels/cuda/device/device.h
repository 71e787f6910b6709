#pragma once
// The device as the host sees it: memory, streams of commands, events, recorded graphs. Implemented on the
// CUDA runtime (device_cuda.cc) and for the emulator (device_emulated.cc). Commands of a stream run in order
// and later: what a command reads or writes on the host must stay in place until the stream was waited for.
// The emulator takes that literally: it runs a stream's commands only when somebody waits for them.
// Everything here throws DeviceError when the device fails.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace troupe::kernels::cuda {

// what() reads "<call or kernel>: <what is wrong>".
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Devices that this process can use; 0 where there is no driver or no device. Throws where there is a driver
// that is too old for this program or does not answer.
int device_count();

struct DeviceProperties {
  std::string name;
  unsigned capability = 0;  // major * 10 + minor
  unsigned multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  std::size_t block_shared_bytes_max = 0;  // that a launch may ask for
  std::size_t multiprocessor_shared_bytes = 0;
};
DeviceProperties device_properties(int device);
// For the calling thread, from now on.
void use_device(int device);
// Of the calling thread's device; cheap.
unsigned device_capability();
unsigned device_multiprocessors();
// Of the calling thread's device, now.
std::size_t free_device_bytes();

struct FreeDeviceMemory {
  void operator()(std::byte* memory) const;
};
struct FreePageLockedMemory {
  void operator()(std::byte* memory) const;
};

// Memory on the device, 256-byte aligned, contents undefined; or page-locked memory of the host, which the
// device copies from and to without staging.
template <class Free>
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes);
  std::byte* data() const { return at_.get(); }
  std::size_t size_bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(at_.get());
  }

 private:
  std::unique_ptr<std::byte, Free> at_;
  std::size_t bytes_ = 0;
};
using DeviceMemory = Memory<FreeDeviceMemory>;
using PageLockedMemory = Memory<FreePageLockedMemory>;
template <>
Memory<FreeDeviceMemory>::Memory(std::size_t bytes);
template <>
Memory<FreePageLockedMemory>::Memory(std::size_t bytes);

// Host memory that somebody else owns, page-locked while this lives: the device copies from and to it without
// staging. All of it is in memory from then on, and takes time to get there.
class PageLock {
 public:
  PageLock(std::byte* memory, std::size_t bytes);
  ~PageLock();
  PageLock(const PageLock&) = delete;
  PageLock& operator=(const PageLock&) = delete;

 private:
  std::byte* const memory_;  // null: there are no bytes
};

class Stream;

// A place in a stream, which must outlive those who wait for the event.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  bool reached() const;  // true also when it was never recorded
  void synchronize() const;
  // Device time from the other event to this one; both were recorded and reached.
  double seconds_since(const Event& earlier) const;

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// One thread at a time.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void upload(void* device, const void* host, std::size_t bytes);
  void download(void* host, const void* device, std::size_t bytes);
  void copy(void* to_device, const void* from_device, std::size_t bytes);
  void clear(void* device, std::size_t bytes);  // to zero bytes
  void record(Event& event);
  void wait(const Event& event);  // commands after this one run after the event
  void synchronize();             // throws what went wrong in the commands so far

  void* handle() const;  // the cudaStream_t; null in the emulator

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Commands recorded once and run many times: `record` enqueues them on the stream, which takes them down and
// does not run them. Addresses and sizes are fixed by the recording, contents of memory are not.
class Graph {
 public:
  Graph(Stream& stream, const std::function<void()>& record);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(Stream& stream) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe::kernels::cuda
