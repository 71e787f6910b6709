#include "deploy/models/device_absence.h"

#include <doctest/doctest.h>

#include "kernels/testing/test_folder.h"

namespace troupe::deploy {
namespace {

TEST_CASE("device absence: the error says what is missing, and names the drop-in where devices are hidden") {
  const kernels::TestFolder folder;
  const auto root = folder.path();
  const auto why = [&] { return why_no_device(root); };
  CHECK(why() == "no NVIDIA driver is loaded on this machine; install it, or look at nvidia-smi");
  std::filesystem::create_directories(root / "proc/driver/nvidia");
  std::filesystem::create_directories(root / "dev");
  folder.write("proc/driver/nvidia/version", "NVRM");
  const std::string control = (root / "dev/nvidiactl").string(), memory = (root / "dev/nvidia-uvm").string();
  const std::string drop_in =
      "; under systemd install the drop-in deploy/systemd/gpu.conf, which lets the unit use NVIDIA's "
      "devices; "
      "give a container the GPU (docker run --gpus all, or nvidia.com/gpu in Kubernetes)";
  CHECK(why() == "the NVIDIA driver is loaded, but this process has no " + control + drop_in);
  folder.write("dev/nvidiactl", "");
  CHECK(why() == "the NVIDIA driver is loaded, but this process has no " + memory + drop_in);
  std::filesystem::create_symlink(memory, memory);  // a loop, which cannot be opened
  CHECK(why() == memory + " cannot be opened (Too many levels of symbolic links)" + drop_in);
  std::filesystem::remove(memory);
  folder.write("dev/nvidia-uvm", "");
  CHECK(why() == "");
}

}  // namespace
}  // namespace troupe::deploy
