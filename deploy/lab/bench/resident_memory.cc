// Reads the resident memory of this process. The program runs on jemalloc, which keeps freed memory for a
// minute; tests and other builds may run on the C library's allocator.
#include "deploy/lab/bench/resident_memory.h"

#include <malloc.h>
#include <unistd.h>

#include <fstream>

// Control function of jemalloc; null where the process does not have it.
extern "C" __attribute__((weak)) int mallctl(const char* name, void* old_value, std::size_t* old_size,
                                             void* new_value, std::size_t new_size);

namespace troupe::deploy {

std::uint64_t resident_bytes() {
  if (mallctl != nullptr) {
    mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
    mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0);  // 4096: all arenas
  }
  malloc_trim(0);
  std::ifstream statm("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace troupe::deploy
