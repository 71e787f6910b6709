#pragma once
// Climber's config.json. A field that asks for other mathematics than Climber's is refused by name.
#include <string>

#include "kernels/climber/climber.h"

namespace troupe::kernels {

// Returns the configuration as text that read_climber_config reads back; equal configurations give
// equal texts.
std::string config_text(const ClimberConfig& config);

}  // namespace troupe::kernels
