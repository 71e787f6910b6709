#pragma once
// The most memory that the process has asked malloc for at any time while a scope lasts, by every thread and
// every library, whether it was given or not: a reader that asks for a terabyte and is refused has believed a
// stranger. The executable defines malloc and its kin (glibc only), so this belongs into a test of its own
// and into no program. Under a sanitizer, which has its own malloc, it sees nothing.
#include <cstddef>

namespace troupe::readers {

class MemoryPeak {
 public:
  MemoryPeak();
  std::size_t most() const;  // beyond what there was when it began
  static bool works();

 private:
  std::size_t before_;
};

}  // namespace troupe::readers
