#pragma once
// Climber (kernels/climber/) as a row of the table of families: on the CPU.
#include "deploy/models/families.h"

namespace troupe::deploy {

Family climber_family();

}  // namespace troupe::deploy
