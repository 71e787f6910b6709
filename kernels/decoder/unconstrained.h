#pragma once
// What a search costs that does not know the catalog (xGR §9, a baseline): an executor that searches over the
// whole vocabulary where it was given an index of items, and then drops what is no item. For measuring.
#include <memory>

#include "kernels/executor/executor.h"

namespace troupe::kernels {

std::unique_ptr<Executor> unconstrained(std::unique_ptr<Executor> executor);

}  // namespace troupe::kernels
