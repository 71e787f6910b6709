#pragma once
// The error for model files that are not what they claim to be. Bugs of the program itself end the
// process instead (check.h).
#include <stdexcept>
#include <string>

namespace troupe::kernels {

// A model directory that cannot be used. `what()` reads "<file>: <what is wrong>; expected <what>".
struct LoadError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace troupe::kernels
