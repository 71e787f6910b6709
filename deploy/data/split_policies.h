#pragma once
// Reads the split policies that `troupe-lab train` wrote (placement/split/trained_policies.h).
#include <string>

#include "placement/split/trained_policies.h"

namespace troupe::deploy {

// Throws std::invalid_argument or FileError with the expected content.
placement::TrainedPolicies read_split_policies(const std::string& path);

}  // namespace troupe::deploy
