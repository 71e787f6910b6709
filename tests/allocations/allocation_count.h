#pragma once
// Counts what is allocated on the heap while a scope lasts, by every thread and every library of the process,
// and by whom. The executable defines malloc and its kin (glibc only), to which operator new and all
// libraries lead; so this belongs into a test of its own and into no program. Under a sanitizer, which has
// its own malloc, it counts nothing.
#include <cstddef>
#include <map>
#include <string>

namespace troupe {

struct Allocations {
  std::size_t count = 0;
  // By the file name of the program or library whose code asked for it, the C++ runtime not counted as one.
  std::map<std::string, std::size_t> by_object;
  std::map<std::string, std::size_t> by_function;  // of this program, where names are known
  std::string program;                             // the file name of this program

  std::size_t ours() const;  // by code of this program itself
  std::string text() const;  // who asked, for a message
};

class AllocationCount {
 public:
  AllocationCount();  // one at a time
  ~AllocationCount();
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;

  Allocations stop();   // ends the count
  static bool works();  // false under a sanitizer
};

}  // namespace troupe
