#pragma once
// A baseline for measuring (xGR §9): an executor whose searches do not know the catalog. It
// searches the whole vocabulary where it is given an index of items, then drops paths that are no
// item.
#include <memory>

#include "kernels/executor/executor.h"

namespace troupe::kernels {

std::unique_ptr<Executor> unconstrained(std::unique_ptr<Executor> executor);

}  // namespace troupe::kernels
