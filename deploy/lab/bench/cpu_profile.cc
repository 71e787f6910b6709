// Divides the CPU time of a benchmark's requests among Troupe's components. Reports what no
// component counted as "rest".
#include "deploy/lab/bench/cpu_profile.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "runtime/profiling/cpu_components.h"

namespace troupe::deploy {
namespace {

constexpr const char* helper_name = "troupe-helper";  // the name that kernels/cpu/engine/team.cc sets

// Returns the CPU time of this process's threads with that name; 0 if Linux does not report it.
double helpers_cpu_seconds() {
  double seconds = 0;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::string name;
    std::getline(std::ifstream(thread.path() / "comm"), name);
    if (name != helper_name) continue;
    double ns = 0;
    if (std::ifstream(thread.path() / "schedstat") >> ns) seconds += ns / 1e9;
  }
  return seconds;
}

}  // namespace

double process_cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

CpuProfile::CpuProfile() : process_begin_(process_cpu_seconds()), helpers_begin_(helpers_cpu_seconds()) {
  start_cpu_profile();
}

std::vector<CpuShare> CpuProfile::take() {
  CpuTimes times = stop_cpu_profile();
  const double process = process_cpu_seconds() - process_begin_;
  const double helpers = helpers_cpu_seconds() - helpers_begin_;
  times[static_cast<std::size_t>(CpuComponent::kernels)] += static_cast<std::int64_t>(helpers * 1e9);
  std::vector<CpuShare> shares;
  double rest = process;
  for (std::size_t component = 1; component < times.size(); ++component) {  // 0: none
    shares.push_back({std::string(name_of(static_cast<CpuComponent>(component))),
                      static_cast<double>(times[component]) / 1e9});
    rest -= shares.back().seconds;
  }
  shares.push_back({"rest", rest});
  return shares;
}

}  // namespace troupe::deploy
