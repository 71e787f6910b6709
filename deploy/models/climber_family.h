#pragma once
// Entry of the model family table for Climber (kernels/climber/), on the CPU or a GPU.
#include "deploy/models/families.h"

namespace troupe::deploy {

Family climber_family();

}  // namespace troupe::deploy
