#pragma once
// Resident memory of this process, for benchmarks that compare it before and after.
#include <cstdint>

namespace troupe::deploy {

// Returns the resident bytes after the allocator has returned its free memory to the system.
std::uint64_t resident_bytes();

}  // namespace troupe::deploy
