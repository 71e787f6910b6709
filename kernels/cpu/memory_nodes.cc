#include "kernels/cpu/memory_nodes.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>

namespace troupe::kernels {
namespace {

bool may_use(int cpu) {
  static const cpu_set_t allowed = [] {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_ZERO(&set);
    return set;
  }();
  return cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed);
}

// A number at the front of `text`, which loses it; -1 if there is none.
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
  std::vector<CpuSet> found;
  std::string list;
  for (int node = 0; std::ifstream file{nodes / ("node" + std::to_string(node)) / "cpulist"}; ++node) {
    std::getline(file, list);
    CpuSet cpus = parse_cpu_list(list);
    std::erase_if(cpus, [](int cpu) { return !may_use(cpu); });
    if (!cpus.empty()) found.push_back(std::move(cpus));
  }
  if (found.size() < 2) found.clear();
  return found;
}

void stay_on(const CpuSet& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace troupe::kernels
