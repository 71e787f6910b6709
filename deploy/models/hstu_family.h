#pragma once
// The HSTU family's row in the table: histories of items with their times, and candidates
// (kernels/hstu/hstu.h).
#include "deploy/models/families.h"

namespace troupe::deploy {

Family hstu_family();

}  // namespace troupe::deploy
