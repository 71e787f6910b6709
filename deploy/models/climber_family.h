#pragma once
// Entry of the model family table for Climber (kernels/climber/), on the CPU or a GPU.
#include "deploy/models/model_families.h"

namespace troupe::deploy {

ModelFamily climber_family();

}  // namespace troupe::deploy
