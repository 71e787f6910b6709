#include "runtime/profiling/process_limits.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <fstream>
#include <memory>

#include "runtime/testing/store_test_folder.h"

namespace troupe {
namespace {

// A root folder with the files of cgroups.
class Root {
 public:
  Root& file(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((path() / name).parent_path());
    std::ofstream(path() / name) << text;
    return *this;
  }
  std::filesystem::path path() const { return folder_->path(); }

 private:
  std::unique_ptr<TestFolder> folder_ = std::make_unique<TestFolder>();
};

Root version_2(const std::string& group) {
  Root root;
  root.file("proc/self/cgroup", "0::" + group + "\n");
  root.file("proc/self/mountinfo",
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
            "35 22 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  return root;
}

Root version_1() {
  Root root;
  root.file("proc/self/cgroup", "7:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n1:name=systemd:/\n");
  root.file("proc/self/mountinfo",
            "31 30 0:28 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
            "32 30 0:29 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  return root;
}

TEST_CASE("process limits: version 2 has the smallest limit of a group and its parents") {
  Root root = version_2("/box/troupe.service");
  CHECK_FALSE(memory_limit(root.path()));
  CHECK_FALSE(cpu_quota(root.path()));
  const std::string group = "sys/fs/cgroup/box/troupe.service/", parent = "sys/fs/cgroup/box/";
  root.file(group + "memory.max", "max\n").file(group + "cpu.max", "max 100000\n");
  CHECK_FALSE(memory_limit(root.path()));
  CHECK_FALSE(cpu_quota(root.path()));
  root.file(group + "memory.max", "1000000\n").file(group + "memory.current", "300000\n");
  root.file(group + "memory.stat", "anon 200000\nactive_file 40000\ninactive_file 60000\n");
  root.file(group + "cpu.max", "150000 100000\n");
  REQUIRE(memory_limit(root.path()));
  CHECK(memory_limit(root.path())->bytes == 1'000'000);
  CHECK(memory_limit(root.path())->used == 200'000);
  CHECK(memory_limit(root.path())->free() == 800'000);
  CHECK(memory_limit(root.path())->file == (root.path() / group / "memory.max").string());
  CHECK(cpu_quota(root.path()) == 1.5);
  // The parent's limit is larger, but its other processes leave less of it.
  root.file(parent + "memory.max", "1500000\n").file(parent + "memory.current", "1100000\n");
  root.file(parent + "cpu.max", "50000 100000\n");
  CHECK(memory_limit(root.path())->free() == 400'000);
  CHECK(cpu_quota(root.path()) == 0.5);
  root.file(group + "memory.high", "500000\n");
  CHECK(memory_limit(root.path())->free() == 300'000);
}

TEST_CASE("process limits: a group outside of its namespace is looked for at the mount point") {
  for (const char* group : {"/", "/../..", "/elsewhere"}) {
    Root root = version_2(group);
    root.file("sys/fs/cgroup/memory.max", "4096\n").file("sys/fs/cgroup/cpu.max", "200000 100000\n");
    CAPTURE(group);
    REQUIRE(memory_limit(root.path()));
    CHECK(memory_limit(root.path())->bytes == 4096);
    CHECK(cpu_quota(root.path()) == 2.0);
  }
}

TEST_CASE("process limits: version 1 is read below the group that is mounted") {
  Root root = version_1();
  const std::string memory = "sys/fs/cgroup/memory/", cpu = "sys/fs/cgroup/cpu,cpuacct/";
  root.file(memory + "memory.limit_in_bytes", "9223372036854771712\n");  // none
  root.file(cpu + "cpu.cfs_quota_us", "-1\n").file(cpu + "cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(memory_limit(root.path()));
  CHECK_FALSE(cpu_quota(root.path()));
  root.file(memory + "memory.limit_in_bytes", "209715200\n");
  root.file(memory + "memory.usage_in_bytes", "5000\n");
  root.file(memory + "memory.stat", "cache 4000\ntotal_inactive_file 3000\ntotal_active_file 1000\n");
  root.file(cpu + "cpu.cfs_quota_us", "50000\n");
  REQUIRE(memory_limit(root.path()));
  CHECK(memory_limit(root.path())->bytes == 209'715'200);
  CHECK(memory_limit(root.path())->used == 1000);
  CHECK(cpu_quota(root.path()) == 0.5);
}

TEST_CASE("process limits: usable cores are the least of machine, mask and quota, and at least one") {
  const auto usable = [](std::uint32_t machine, std::uint32_t mask, std::optional<double> quota) {
    return CpuLimits{machine, mask, quota}.usable();
  };
  CHECK(usable(64, 64, {}) == 64);
  CHECK(usable(64, 8, {}) == 8);
  CHECK(usable(64, 64, 8.0) == 8);
  CHECK(usable(64, 64, 7.9) == 7);
  CHECK(usable(64, 4, 8.0) == 4);
  CHECK(usable(2, 2, 0.1) == 1);
  CHECK(CpuLimits{64, 64, {}}.reason() == "");
  CHECK(CpuLimits{64, 64, 100.0}.reason() == "");
  CHECK(CpuLimits{64, 8, {}}.reason() == "its affinity mask");
  CHECK(CpuLimits{64, 8, 2.0}.reason() == "the CPU quota of its cgroup");
}

TEST_CASE("process limits: this process uses no more cores than its mask has") {
  cpu_set_t mine;
  REQUIRE(sched_getaffinity(0, sizeof mine, &mine) == 0);
  CHECK(cpu_limits().mask == static_cast<std::uint32_t>(CPU_COUNT(&mine)));
  CHECK(usable_cores() >= 1);
  CHECK(usable_cores() <= cpu_limits().mask);
  CHECK(machine_memory_available() > 0);
}

}  // namespace
}  // namespace troupe
