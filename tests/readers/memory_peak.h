#pragma once
// Measures the maximum memory that the process requested from malloc during a scope, by all threads and
// libraries, whether it was granted or not: a reader that requests a terabyte and is refused has trusted
// a stranger's number. The executable replaces malloc and its relatives (glibc only), so this belongs
// into a separate test program. Under a sanitizer, which has its own malloc, it sees nothing.
#include <cstddef>

namespace troupe::readers {

class MemoryPeak {
 public:
  MemoryPeak();
  std::size_t most() const;  // above the level at its start
  static bool works();

 private:
  std::size_t before_;
};

}  // namespace troupe::readers
