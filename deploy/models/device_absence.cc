// Looks at the files of NVIDIA's driver in /proc and /dev.
#include "deploy/models/device_absence.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace troupe::deploy {
namespace {

constexpr const char* let_through =
    "; under systemd install the drop-in deploy/systemd/gpu.conf, which lets the unit use NVIDIA's devices; "
    "give a container the GPU (docker run --gpus all, or nvidia.com/gpu in Kubernetes)";

bool is_there(const std::filesystem::path& file) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(file, error));
}

}  // namespace

std::string why_no_device(const std::filesystem::path& root) {
  if (!is_there(root / "proc/driver/nvidia/version"))
    return "no NVIDIA driver is loaded on this machine; install it, or look at nvidia-smi";
  for (const char* const name : {"dev/nvidiactl", "dev/nvidia-uvm"}) {
    const std::filesystem::path file = root / name;
    if (!is_there(file))
      return "the NVIDIA driver is loaded, but this process has no " + file.string() + let_through;
    const int opened = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
    const int error = errno;
    if (opened < 0)
      return file.string() + " cannot be opened (" + std::generic_category().message(error) + ")" +
             let_through;
    ::close(opened);
  }
  return "";
}

}  // namespace troupe::deploy
