#pragma once
// Parses the option --device of commands that predict: the name of a known device, or the file of a
// profile that `troupe-lab bench calibrate` wrote.
#include <string>

#include "placement/cost/cost_model.h"

namespace troupe::deploy {

placement::DeviceProfile device_of(const std::string& option);  // throws std::invalid_argument

}  // namespace troupe::deploy
