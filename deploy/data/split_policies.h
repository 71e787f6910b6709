#pragma once
// What `troupe train` wrote (placement/split/trained_policies.h), from its file.
#include <string>

#include "placement/split/trained_policies.h"

namespace troupe::deploy {

// Throws std::invalid_argument or FileError with what was expected.
placement::TrainedPolicies read_split_policies(const std::string& path);

}  // namespace troupe::deploy
