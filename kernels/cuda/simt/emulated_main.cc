// The main function of cuda_emulated_test, which tests CUDA kernels without a GPU. `--profile N`
// selects the emulated device by compute capability (90 = 9.0). `--schedule-seed N` selects the
// order in which warps run, so that a failure can be repeated.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

#include "kernels/cuda/simt/device_emulated.h"

namespace emulator = troupe::kernels::cuda::emulator;

// Other arguments are doctest's.
int main(int count, char** words) {
  unsigned capability = 90;
  for (int i = 1; i + 1 < count; ++i) {
    const std::string_view word = words[i];
    const auto number = [&] { return std::strtoull(words[i + 1], nullptr, 10); };
    if (word == "--profile") capability = static_cast<unsigned>(number());
    if (word == "--schedule-seed") emulator::use_schedule_seed(number());
  }
  try {
    emulator::emulate(emulator::profile(capability));
  } catch (const troupe::kernels::cuda::DeviceError& error) {
    std::cerr << "--profile: " << error.what() << "\n";
    return 2;
  }
  std::cout << "emulated: --profile " << capability << " --schedule-seed " << emulator::schedule_seed()
            << "\n";
  return doctest::Context(count, words).run();
}
