#include "kernels/cuda/device/device_losses.h"

#include <doctest/doctest.h>

using namespace troupe::kernels::cuda;

TEST_SUITE("cuda device losses") {
  TEST_CASE("device losses: errors that need a new process are losses, and errors of one call are not") {
    // Errors of which driver_types.h says that the process must be terminated and relaunched.
    for (const int error : {226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911}) {
      CAPTURE(error);
      CHECK(is_device_loss(error));
    }
    for (const int error : {0, 1, 2, 3, 35, 46, 98, 100, 209, 600, 701, 712, 720, 802, 900, 999}) {
      CAPTURE(error);
      CHECK_FALSE(is_device_loss(error));
    }
  }
}
