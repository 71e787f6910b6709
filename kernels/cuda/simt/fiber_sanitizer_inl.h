#pragma once
// Reports to the sanitizers when a fiber of the emulator is entered and left; does nothing in other
// builds.
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace troupe::kernels::cuda::emulator {

#if defined(__SANITIZE_ADDRESS__)

inline constexpr std::size_t stack_bytes = 512 * 1024;

class FiberSanitizer {
 public:
  void stack(const void* bottom, std::size_t bytes) { bottom_ = bottom, bytes_ = bytes; }
  // Clears the freed stack's frames, since other memory may be mapped there next.
  static void stack_gone(const void* bottom, std::size_t bytes) {
    __asan_unpoison_memory_region(bottom, bytes);
  }
  void enter() { __sanitizer_start_switch_fiber(&caller_frames_, bottom_, bytes_); }
  void returned() { __sanitizer_finish_switch_fiber(caller_frames_, nullptr, nullptr); }
  void entered() { __sanitizer_finish_switch_fiber(frames_, &caller_bottom_, &caller_bytes_); }
  void leave() { __sanitizer_start_switch_fiber(&frames_, caller_bottom_, caller_bytes_); }
  void leave_for_good() { __sanitizer_start_switch_fiber(nullptr, caller_bottom_, caller_bytes_); }

 private:
  const void* bottom_ = nullptr;
  const void* caller_bottom_ = nullptr;
  std::size_t bytes_ = 0, caller_bytes_ = 0;
  void* frames_ = nullptr;
  void* caller_frames_ = nullptr;
};

#elif defined(__SANITIZE_THREAD__)

inline constexpr std::size_t stack_bytes = 512 * 1024;

class FiberSanitizer {
 public:
  FiberSanitizer() : fiber_(__tsan_create_fiber(0)) {}
  ~FiberSanitizer() { __tsan_destroy_fiber(fiber_); }
  FiberSanitizer(const FiberSanitizer&) = delete;
  FiberSanitizer& operator=(const FiberSanitizer&) = delete;
  void stack(const void*, std::size_t) {}
  static void stack_gone(const void*, std::size_t) {}
  void enter() {
    caller_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, 0);
  }
  void returned() {}
  void entered() {}
  void leave() { __tsan_switch_to_fiber(caller_, 0); }
  void leave_for_good() { leave(); }

 private:
  void* fiber_;
  void* caller_ = nullptr;
};

#else

inline constexpr std::size_t stack_bytes = 64 * 1024;

class FiberSanitizer {
 public:
  void stack(const void*, std::size_t) {}
  static void stack_gone(const void*, std::size_t) {}
  void enter() {}
  void returned() {}
  void entered() {}
  void leave() {}
  void leave_for_good() {}
};

#endif

}  // namespace troupe::kernels::cuda::emulator
