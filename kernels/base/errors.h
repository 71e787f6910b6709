#pragma once
// The errors of this room's edges: files that are not what they claim to be, passes that a device has no room for.
#include <stdexcept>
#include <string>

namespace troupe::kernels {

// A model directory that cannot be used. `what()` reads "<file>: <what is wrong>; expected <what>".
struct LoadError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A pass that is larger than its decoder's bounds. Nothing was computed. `what()` says what was found and expected.
struct PassRefused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace troupe::kernels
