#pragma once
// Counts heap allocations during a scope, by all threads and libraries of the process, and attributes
// them to callers. The executable replaces malloc and its relatives (glibc only), which operator new and
// all libraries use. So this belongs into a separate test program. Under a sanitizer, which has its own
// malloc, it counts nothing.
#include <cstddef>
#include <map>
#include <string>

namespace troupe {

struct Allocations {
  std::size_t count = 0;
  // Counts by file name of the calling program or library; the C++ runtime is not a caller.
  std::map<std::string, std::size_t> by_object;
  std::map<std::string, std::size_t> by_function;  // callers in this program whose names are known
  std::string program;                             // the file name of this program

  std::map<std::size_t, std::size_t> by_size;  // counts by the number of bytes, up to 64 KiB

  std::size_t ours() const;                      // counts calls by code of this program
  std::size_t of_size(std::size_t bytes) const;  // counts calls for exactly so many bytes
  std::string text() const;                      // callers and counts, for a message
};

class AllocationCount {
 public:
  AllocationCount();  // only one may exist at a time
  ~AllocationCount();
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;

  Allocations stop();   // ends the count
  static bool works();  // false under a sanitizer
};

}  // namespace troupe
