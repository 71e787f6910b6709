#pragma once
// Limits of what this process may use of its machine: cores, by its affinity mask and the quota of its
// control groups (cgroups), and memory, by their limits. In a container these are far below the machine's.
// Both versions of cgroups are read, each with all parents, because the smallest limit holds.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe {

struct MemoryLimit {
  std::uint64_t bytes = 0;
  std::uint64_t used = 0;  // by all processes of the cgroup, without file pages that can be dropped
  std::string file;        // such as "/sys/fs/cgroup/memory.max"
  std::uint64_t free() const { return used < bytes ? bytes - used : 0; }
};

struct CpuLimits {
  std::uint32_t machine = 1;    // cores of the machine that are online
  std::uint32_t mask = 1;       // cores in the affinity mask
  std::optional<double> quota;  // cores' worth of time
  // Number of threads that can compute at a time: at least 1. Part of a core is none, because threads
  // beyond the quota only use it up earlier in each period.
  std::uint32_t usable() const;
  // Returns why fewer cores than the machine's are usable, such as "the CPU quota"; "" if all are.
  std::string reason() const;
};

// `root` is the folder of /proc and /sys: another one in tests. Without readable files there are no limits.
std::optional<MemoryLimit> memory_limit(const std::filesystem::path& root = "/");  // the one with least free
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");
CpuLimits cpu_limits();
std::uint32_t usable_cores();  // of cpu_limits()

std::uint64_t machine_memory_available();  // bytes that the kernel could give now; 0 = unknown

}  // namespace troupe
