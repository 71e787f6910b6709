#pragma once
// The memory nodes (NUMA) of this machine, and keeping threads on one: a thread that computes beside the
// memory it reads is spared the way across. On a machine with one node nothing is kept anywhere; the
// scheduler knows best.
#include <filesystem>
#include <string_view>
#include <vector>

namespace troupe::kernels {

using CpuSet = std::vector<int>;  // numbers of CPUs, ascending

// The CPUs of each node that the calling thread may use, nodes without any left out. Empty on a machine with
// one node, and where the system does not say. `nodes` is the kernel's folder with node0, node1, ….
std::vector<CpuSet> read_memory_nodes(const std::filesystem::path& nodes = "/sys/devices/system/node");

// "0-3,8,10-11" as CPU numbers; what cannot be read is left out.
CpuSet parse_cpu_list(std::string_view text);

// Keeps the calling thread on those of these CPUs that it could use before the first call; if there are none,
// it stays where it is. An empty set lets it go again.
void stay_on(const CpuSet& cpus);

}  // namespace troupe::kernels
