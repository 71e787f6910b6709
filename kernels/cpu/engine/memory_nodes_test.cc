#include "kernels/cpu/engine/memory_nodes.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <fstream>
#include <thread>

#include "kernels/testing/test_folder.h"

using namespace troupe::kernels;

namespace {

void write_node(const std::filesystem::path& nodes, int node, const std::string& cpus) {
  const auto folder = nodes / ("node" + std::to_string(node));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "cpulist") << cpus << '\n';
}

int first_cpu() {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &set)) ++cpu;
  return cpu;
}

TEST_CASE("memory nodes: a list of CPUs has numbers and ranges, and other text is left out") {
  CHECK(parse_cpu_list("0-3,8,10-11") == CpuSet{0, 1, 2, 3, 8, 10, 11});
  CHECK(parse_cpu_list("5") == CpuSet{5});
  CHECK(parse_cpu_list("9,1-2") == CpuSet{1, 2, 9});
  CHECK(parse_cpu_list("").empty());
  CHECK(parse_cpu_list("x,-,4-,7-5,2") == CpuSet{2});
  CHECK(parse_cpu_list("0-99999999").size() == CPU_SETSIZE);
}

TEST_CASE("memory nodes: with one node, or none named by the system, nothing is bound") {
  const TestFolder folder;
  CHECK(read_memory_nodes(folder.path()).empty());
  write_node(folder.path(), 0, "0-4095");
  CHECK(read_memory_nodes(folder.path()).empty());
}

TEST_CASE("memory nodes: nodes have the CPUs that this process may use, and empty nodes are left out") {
  const TestFolder folder;
  const std::string mine = std::to_string(first_cpu());
  write_node(folder.path(), 0, mine + ",1020-1023");
  write_node(folder.path(), 1, "1021-1023");
  write_node(folder.path(), 5, mine);
  write_node(folder.path(), 12, "1023");
  std::filesystem::create_directories(folder.path() / "node7x");
  const auto nodes = read_memory_nodes(folder.path());
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0] == CpuSet{first_cpu()});
  CHECK(nodes[1] == CpuSet{first_cpu()});
}

TEST_CASE("memory nodes: a thread stays on the CPUs it is bound to until it is unbound") {
  const int cpu = first_cpu();
  int before = 0, unchanged = 0, after = 0, released = 0;
  std::thread([&] {
    cpu_set_t set;
    const auto count = [&] { return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1; };
    before = count();
    bind_to_cpus({});
    bind_to_cpus({CPU_SETSIZE - 1});
    unchanged = count();
    bind_to_cpus({cpu, CPU_SETSIZE - 1});
    after = count();
    bind_to_cpus({});
    released = count();
  }).join();
  CHECK(unchanged == before);
  CHECK(after == 1);
  CHECK(released == before);
}

}  // namespace
