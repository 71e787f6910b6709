#pragma once
// The memory nodes (NUMA) of this machine, and binding threads to one: a thread that computes
// beside the memory it reads avoids access across nodes. On a machine with one node nothing is
// bound, and the scheduler decides.
#include <filesystem>
#include <string_view>
#include <vector>

namespace troupe::kernels {

using CpuSet = std::vector<int>;  // numbers of CPUs, ascending

// Returns the CPUs of each node that the calling thread may use, without nodes that have none.
// Empty on a machine with one node, or if the system does not tell. `nodes` is the kernel's folder
// with node0, node1, ….
std::vector<CpuSet> read_memory_nodes(const std::filesystem::path& nodes = "/sys/devices/system/node");

// Parses "0-3,8,10-11" into CPU numbers; text that is no number is left out.
CpuSet parse_cpu_list(std::string_view text);

// Binds the calling thread to those of these CPUs that it could use before the first call; if there
// are none, it stays where it is. An empty set unbinds it.
void bind_to_cpus(const CpuSet& cpus);

}  // namespace troupe::kernels
