// Reads limits of memory and CPU time from the files of cgroups. /proc/self/cgroup names the process's
// group in each hierarchy, and /proc/self/mountinfo says where the hierarchy is mounted.
#include "runtime/profiling/process_limits.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <vector>

namespace troupe {
namespace {

using Path = std::filesystem::path;

// Version 1 writes the largest multiple of a page for "no limit".
constexpr std::uint64_t no_limit = std::uint64_t{1} << 60;
constexpr int parents_max = 64;

std::string first_line(const Path& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Returns the value of a line "name value" or "name: value kB", as /proc/meminfo and memory.stat have
// them.
std::optional<std::uint64_t> find_value(const Path& file, std::string_view name) {
  std::ifstream in(file);
  for (std::string line, word, value; std::getline(in, line);) {
    std::istringstream words(line);
    if (words >> word >> value && word == name) return number_of(value);
  }
  return std::nullopt;
}

// A controller, such as "memory", in the list "cpu,cpuacct".
bool lists(std::string_view names, std::string_view name) {
  for (std::istringstream parts{std::string(names)}; !parts.eof();) {
    std::string part;
    std::getline(parts, part, ',');
    if (part == name) return true;
  }
  return false;
}

// The process's group in the hierarchy of a controller; version 2 has one hierarchy for all, named "".
std::optional<std::string> group_of(const Path& root, std::string_view controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string_view names = std::string_view(line).substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : lists(names, controller)) return line.substr(second + 1);
  }
  return std::nullopt;
}

struct Mount {
  std::string of;  // the group at the mount point: not "/" in a container without a namespace
  Path at;
};

// Lines have fields before " - ": … root mount-point …, and after it: type source options.
std::optional<Mount> mount_of(const Path& root, std::string_view controller) {
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t middle = line.find(" - ");
    if (middle == line.npos) continue;
    std::istringstream before(line.substr(0, middle)), after(line.substr(middle + 3));
    std::string id, parent, device, group, point, type, source, options;
    before >> id >> parent >> device >> group >> point;
    after >> type >> source >> options;
    if (type == (controller.empty() ? "cgroup2" : "cgroup") &&
        (controller.empty() || lists(options, controller)))
      return Mount{group, point};
  }
  return std::nullopt;
}

// Returns the folders of the process's group and its parents up to the mount point, the group first.
std::vector<Path> group_folders(const Path& root, std::string_view controller) {
  const auto group = group_of(root, controller);
  const auto mount = mount_of(root, controller);
  if (!group || !mount) return {};
  std::string below = *group;
  if (mount->of != "/") below = below.starts_with(mount->of) ? below.substr(mount->of.size()) : "";
  const Path top = (root / mount->at.relative_path()).lexically_normal();
  const Path way = Path(below).relative_path();
  Path folder = way.empty() ? top : (top / way).lexically_normal();
  std::error_code error;
  if (below.find("..") != below.npos || !std::filesystem::is_directory(folder, error)) folder = top;
  std::vector<Path> folders{folder};
  while (folder != top && folder.has_relative_path() && folders.size() < parents_max) {
    folder = folder.parent_path();
    folders.push_back(folder);
  }
  return folders;
}

// Returns the limit that one file of a group sets. `prefix` is that of the names in memory.stat.
std::optional<MemoryLimit> limit_of(const Path& folder, const char* limit, const char* used,
                                    const std::string& prefix) {
  const auto bytes = number_of(first_line(folder / limit));
  if (!bytes || *bytes >= no_limit) return std::nullopt;
  const std::uint64_t all = number_of(first_line(folder / used)).value_or(0);
  const auto pages = [&](const char* kind) {
    return find_value(folder / "memory.stat", prefix + kind).value_or(0);
  };
  const std::uint64_t dropped = pages("inactive_file") + pages("active_file");
  return MemoryLimit{*bytes, all > dropped ? all - dropped : 0, (folder / limit).string()};
}

std::optional<double> quota_of(const Path& folder) {
  std::istringstream both(first_line(folder / "cpu.max"));  // version 2: "QUOTA PERIOD" or "max PERIOD"
  std::string quota, period;
  if (!(both >> quota >> period)) {
    quota = first_line(folder / "cpu.cfs_quota_us");  // version 1: -1 = none
    period = first_line(folder / "cpu.cfs_period_us");
  }
  const auto part = number_of(quota), whole = number_of(period);
  if (!part || !whole || *whole == 0) return std::nullopt;
  return static_cast<double>(*part) / static_cast<double>(*whole);
}

}  // namespace

std::optional<MemoryLimit> memory_limit(const std::filesystem::path& root) {
  std::optional<MemoryLimit> least;
  const auto consider = [&](const std::optional<MemoryLimit>& limit) {
    if (limit && (!least || limit->free() < least->free())) least = limit;
  };
  for (const Path& folder : group_folders(root, "")) {
    consider(limit_of(folder, "memory.max", "memory.current", ""));
    consider(limit_of(folder, "memory.high", "memory.current", ""));
  }
  for (const Path& folder : group_folders(root, "memory"))
    consider(limit_of(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"));
  return least;
}

std::optional<double> cpu_quota(const std::filesystem::path& root) {
  std::optional<double> least;
  for (const char* const controller : {"", "cpu"})
    for (const Path& folder : group_folders(root, controller))
      if (const auto quota = quota_of(folder)) least = std::min(least.value_or(*quota), *quota);
  return least;
}

std::uint32_t CpuLimits::usable() const {
  const double most = std::min(quota.value_or(mask), static_cast<double>(std::min(mask, machine)));
  return std::max(1U, static_cast<std::uint32_t>(most));
}

std::string CpuLimits::reason() const {
  if (usable() >= machine) return "";
  return usable() < mask ? "the CPU quota of its cgroup" : "its affinity mask";
}

CpuLimits cpu_limits() {
  CpuLimits limits;
  limits.machine = static_cast<std::uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  limits.mask = limits.machine;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    limits.mask = std::max(1U, static_cast<std::uint32_t>(CPU_COUNT(&set)));
  limits.quota = cpu_quota();
  return limits;
}

std::uint32_t usable_cores() { return cpu_limits().usable(); }

std::uint64_t machine_memory_available() {
  return find_value("/proc/meminfo", "MemAvailable:").value_or(0) * 1024;
}

}  // namespace troupe
