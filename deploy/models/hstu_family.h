#pragma once
// Entry of the model family table for HSTU: histories of items with their times, and candidates
// (kernels/hstu/hstu.h).
#include "deploy/models/model_families.h"

namespace troupe::deploy {

ModelFamily hstu_family();

}  // namespace troupe::deploy
