// Finds the memory nodes (NUMA) of the machine and binds threads to one. A thread that computes
// beside the memory it reads avoids slow access across nodes.
#include "kernels/cpu/engine/memory_nodes.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

namespace troupe::kernels {
namespace {

// Returns the CPUs that the calling thread may use.
cpu_set_t own_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_ZERO(&set);
  return set;
}

// Removes a number from the front of `text` and returns it; -1 if there is none.
int take_number(std::string_view& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc() ? value : -1;
}

}  // namespace

CpuSet parse_cpu_list(std::string_view text) {
  CpuSet cpus;
  while (!text.empty()) {
    std::string_view range = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), range.size() + 1));
    const int first = take_number(range);
    int last = first;
    if (range.starts_with('-')) {
      range.remove_prefix(1);
      last = take_number(range);
    }
    for (int cpu = first; first >= 0 && cpu <= last && cpu < CPU_SETSIZE; ++cpu) cpus.push_back(cpu);
  }
  std::ranges::sort(cpus);
  return cpus;
}

std::vector<CpuSet> read_memory_nodes(const std::filesystem::path& nodes) {
  const cpu_set_t own = own_cpus();
  std::map<int, CpuSet> found;  // node number → CPUs; numbers may have gaps
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(nodes, none)) {
    const std::string name = entry.path().filename().string();
    std::string_view number = name;
    if (!number.starts_with("node")) continue;
    number.remove_prefix(4);
    const int node = take_number(number);
    std::string list;
    std::getline(std::ifstream(entry.path() / "cpulist") >> std::ws, list);
    CpuSet cpus = parse_cpu_list(list);
    std::erase_if(cpus, [&](int cpu) { return !CPU_ISSET(cpu, &own); });
    if (node >= 0 && number.empty() && !cpus.empty()) found[node] = std::move(cpus);
  }
  std::vector<CpuSet> sets;
  for (auto& [node, cpus] : found) sets.push_back(std::move(cpus));
  if (sets.size() < 2) sets.clear();
  return sets;
}

void bind_to_cpus(const CpuSet& cpus) {
  thread_local const cpu_set_t own = own_cpus();  // CPUs of the thread before the first call
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus)
    if (CPU_ISSET(cpu, &own)) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, cpus.empty() ? &own : &set);  // the system refuses an empty set
}

}  // namespace troupe::kernels
