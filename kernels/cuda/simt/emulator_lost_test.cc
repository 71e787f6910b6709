// Tests device_lost.h, which needs a device that fails on request.
#include "kernels/cuda/device/device_lost.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/simt/device_emulated.h"

using namespace troupe::kernels::cuda;

namespace {

// Runs a child process whose device fails during a copy; returns its exit status.
int status_of(bool lost, bool throws) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);  // replaces doctest's handler, which would report a crashed test
    fclose(stderr);
    if (throws) throw_when_device_lost();
    const DeviceMemory memory(64);
    Stream stream;
    emulator::fail_command(1, lost);
    stream.clear(memory.data(), 64);
    try {
      stream.synchronize();
    } catch (const DeviceError&) {
      _exit(7);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_SUITE("cuda emulator: lost device") {
  TEST_CASE("emulator: a lost device ends the process unless it opted out; other failures throw") {
    const int ended = status_of(true, false);
    CHECK(WIFSIGNALED(ended));
    for (const bool lost : {true, false}) {
      const int reported = status_of(lost, lost);
      CHECK(WIFEXITED(reported));
      CHECK(WEXITSTATUS(reported) == 7);
    }
  }
}
