// Gives the engine memory, streams, events and recorded graphs of a GPU, through the CUDA runtime.
// The emulator has a twin of this file (simt/device_emulated.cc).
#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/device_losses.h"
#include "kernels/cuda/device/device_lost.h"

namespace troupe::kernels::cuda {

static_assert(is_device_loss(cudaErrorECCUncorrectable) && is_device_loss(cudaErrorNvlinkUncorrectable) &&
              is_device_loss(cudaErrorIllegalAddress) && is_device_loss(cudaErrorLaunchTimeout) &&
              is_device_loss(cudaErrorContextIsDestroyed) && is_device_loss(cudaErrorAssert) &&
              is_device_loss(cudaErrorHardwareStackError) && is_device_loss(cudaErrorIllegalInstruction) &&
              is_device_loss(cudaErrorMisalignedAddress) && is_device_loss(cudaErrorInvalidAddressSpace) &&
              is_device_loss(cudaErrorInvalidPc) && is_device_loss(cudaErrorLaunchFailure));
static_assert(!is_device_loss(cudaErrorMemoryAllocation) && !is_device_loss(cudaErrorNotReady));

// Clears the error that the runtime also keeps for the next call, which would be a launch that is
// not at fault.
void cuda_failed(const char* call, cudaError_t error) {
  (void)cudaGetLastError();
  const std::string what = std::string(call) + ": " + cudaGetErrorString(error);
  if (is_device_loss(static_cast<int>(error))) device_lost(what);
  throw DeviceError(what);
}

namespace {

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) cuda_failed(call, error);
}

unsigned attribute(cudaDeviceAttr name, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, device), "cudaDeviceGetAttribute");
  return static_cast<unsigned>(value);
}

// Returns 0 if no driver is installed.
int driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

}  // namespace

int device_count() {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found == cudaSuccess) return count;
  (void)cudaGetLastError();
  if (found == cudaErrorNoDevice || driver_version() == 0) return 0;
  throw DeviceError(std::string("cudaGetDeviceCount: ") + cudaGetErrorString(found));
}

DeviceProperties device_properties(int device) {
  cudaDeviceProp found;
  check(cudaGetDeviceProperties(&found, device), "cudaGetDeviceProperties");
  return {found.name,
          static_cast<unsigned>(found.major * 10 + found.minor),
          static_cast<unsigned>(found.multiProcessorCount),
          found.totalGlobalMem,
          attribute(cudaDevAttrL2CacheSize, device),
          attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device)};
}

void use_device(int device) { check(cudaSetDevice(device), "cudaSetDevice"); }

unsigned device_capability() {
  const int device = current_device();
  return attribute(cudaDevAttrComputeCapabilityMajor, device) * 10 +
         attribute(cudaDevAttrComputeCapabilityMinor, device);
}
unsigned device_multiprocessors() { return attribute(cudaDevAttrMultiProcessorCount, current_device()); }
std::size_t free_device_bytes() {
  std::size_t free = 0, all = 0;
  check(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  return free;
}

void FreeDeviceMemory::operator()(std::byte* memory) const { cudaFree(memory); }
void FreePageLockedMemory::operator()(std::byte* memory) const { cudaFreeHost(memory); }

template <>
Memory<FreeDeviceMemory>::Memory(std::size_t bytes) : bytes_(bytes) {
  void* memory = nullptr;
  if (bytes > 0) check(cudaMalloc(&memory, bytes), "cudaMalloc");
  at_.reset(static_cast<std::byte*>(memory));
}
template <>
Memory<FreePageLockedMemory>::Memory(std::size_t bytes) : bytes_(bytes) {
  void* memory = nullptr;
  if (bytes > 0) check(cudaMallocHost(&memory, bytes), "cudaMallocHost");
  at_.reset(static_cast<std::byte*>(memory));
}

PageLock::PageLock(std::byte* memory, std::size_t bytes) : memory_(bytes > 0 ? memory : nullptr) {
  if (memory_ != nullptr)
    check(cudaHostRegister(memory_, bytes, cudaHostRegisterPortable), "cudaHostRegister");
}
PageLock::~PageLock() {
  if (memory_ != nullptr) cudaHostUnregister(memory_);
}

struct Event::State {
  cudaEvent_t event = nullptr;
};
// Makes waiting threads sleep: by default the runtime spins, which costs a core per executor.
Event::Event() : state_(new State) {
  check(cudaEventCreateWithFlags(&state_->event, cudaEventBlockingSync), "cudaEventCreate");
}
Event::~Event() { cudaEventDestroy(state_->event); }
bool Event::reached() const {
  const cudaError_t now = cudaEventQuery(state_->event);
  if (now == cudaErrorNotReady) return false;
  check(now, "cudaEventQuery");
  return true;
}
void Event::synchronize() const { check(cudaEventSynchronize(state_->event), "cudaEventSynchronize"); }
double Event::seconds_since(const Event& earlier) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, earlier.state_->event, state_->event), "cudaEventElapsedTime");
  return milliseconds / 1000.0;
}

struct Stream::State {
  cudaStream_t stream = nullptr;
  Event ended;  // recorded behind the commands that the last synchronize waited for
};
Stream::Stream() : state_(new State) {
  check(cudaStreamCreateWithFlags(&state_->stream, cudaStreamNonBlocking), "cudaStreamCreate");
}
Stream::~Stream() { cudaStreamDestroy(state_->stream); }
void Stream::upload(void* device, const void* host, std::size_t bytes) {
  check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, state_->stream), "upload");
}
void Stream::download(void* host, const void* device, std::size_t bytes) {
  check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, state_->stream), "download");
}
void Stream::copy(void* to_device, const void* from_device, std::size_t bytes) {
  check(cudaMemcpyAsync(to_device, from_device, bytes, cudaMemcpyDeviceToDevice, state_->stream), "copy");
}
void Stream::clear(void* device, std::size_t bytes) {
  check(cudaMemsetAsync(device, 0, bytes, state_->stream), "clear");
}
void Stream::record(Event& event) {
  check(cudaEventRecord(event.state().event, state_->stream), "cudaEventRecord");
}
void Stream::wait(const Event& event) {
  check(cudaStreamWaitEvent(state_->stream, event.state().event, 0), "cudaStreamWaitEvent");
}
void Stream::synchronize() {
  record(state_->ended);
  state_->ended.synchronize();
}
void* Stream::handle() const { return state_->stream; }

struct Graph::State {
  cudaGraphExec_t graph = nullptr;
};
Graph::Graph(Stream& stream, const std::function<void()>& record) : state_(new State) {
  const auto handle = static_cast<cudaStream_t>(stream.handle());
  cudaGraph_t recorded = nullptr;
  check(cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  try {
    record();
  } catch (...) {
    cudaStreamEndCapture(handle, &recorded);
    if (recorded != nullptr) cudaGraphDestroy(recorded);
    (void)cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(handle, &recorded), "cudaStreamEndCapture");
  const cudaError_t made = cudaGraphInstantiate(&state_->graph, recorded, 0);
  cudaGraphDestroy(recorded);
  check(made, "cudaGraphInstantiate");
}
Graph::~Graph() { cudaGraphExecDestroy(state_->graph); }
void Graph::launch(Stream& stream) const {
  check(cudaGraphLaunch(state_->graph, static_cast<cudaStream_t>(stream.handle())), "cudaGraphLaunch");
}

}  // namespace troupe::kernels::cuda
