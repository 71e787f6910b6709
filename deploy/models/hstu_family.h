#pragma once
// Entry of the model family table for HSTU: histories of items with their times, and candidates
// (kernels/hstu/hstu.h).
#include "deploy/models/families.h"

namespace troupe::deploy {

Family hstu_family();

}  // namespace troupe::deploy
