#pragma once
// Climber's config.json. A field that asks for other mathematics than this family's is refused by name.
#include <string>

#include "kernels/climber/climber.h"

namespace troupe::kernels {

// As text that read_climber_config reads back; equal configurations are equal texts.
std::string config_text(const ClimberConfig& config);

}  // namespace troupe::kernels
