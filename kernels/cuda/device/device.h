#pragma once
// Represents the device to the host: memory, streams of commands, events, recorded graphs. The
// implementations are the CUDA runtime (device_cuda.cc) and the emulator (device_emulated.cc). A
// stream runs its commands in order and asynchronously: host memory that a command reads or writes
// must stay valid until the stream was synchronized. The emulator enforces this: it runs a stream's
// commands only when a caller waits for them. All functions throw DeviceError when the device
// fails.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace troupe::kernels::cuda {

// An error of the device; what() reads "<call or kernel>: <what is wrong>".
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns the number of devices that this process can use; 0 without a driver or a device. Throws
// if the driver is too old for this program or does not answer.
int device_count();

struct DeviceProperties {
  std::string name;
  unsigned capability = 0;  // major * 10 + minor
  unsigned multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  std::size_t block_shared_bytes_max = 0;  // maximum that a launch may request
  std::size_t multiprocessor_shared_bytes = 0;
};
DeviceProperties device_properties(int device);
// Selects the device for the calling thread.
void use_device(int device);
// Properties of the calling thread's device; cheap to query.
unsigned device_capability();
unsigned device_multiprocessors();
// Returns the free memory of the calling thread's device.
std::size_t free_device_bytes();

struct FreeDeviceMemory {
  void operator()(std::byte* memory) const;
};
struct FreePageLockedMemory {
  void operator()(std::byte* memory) const;
};

// Device memory, 256-byte aligned with undefined contents; or page-locked host memory, which the
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

// Page-locks host memory with another owner while this object lives, so that the device copies from
// and to it without staging. Construction makes all of it resident, which takes time.
class PageLock {
 public:
  PageLock(std::byte* memory, std::size_t bytes);
  ~PageLock();
  PageLock(const PageLock&) = delete;
  PageLock& operator=(const PageLock&) = delete;

 private:
  std::byte* const memory_;  // null if there are no bytes
};

class Stream;

// A point in a stream; the event must outlive those who wait for it.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  bool reached() const;  // also true if it was never recorded
  void synchronize() const;
  // Returns the device time from `earlier` to this event; both must have been recorded and reached.
  double seconds_since(const Event& earlier) const;

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// A queue of commands; only one thread may use it at a time.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void upload(void* device, const void* host, std::size_t bytes);
  void download(void* host, const void* device, std::size_t bytes);
  void copy(void* to_device, const void* from_device, std::size_t bytes);
  void clear(void* device, std::size_t bytes);  // fills with zero bytes
  void record(Event& event);
  void wait(const Event& event);  // later commands of this stream run after the event
  void synchronize();             // throws the error of a failed earlier command

  void* handle() const;  // the cudaStream_t; null in the emulator

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Commands recorded once and run many times. `record` enqueues them on the stream, which records
// them and does not run them. The recording fixes addresses and sizes, but not the contents of
// memory.
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
