#pragma once
// HSTU, written to be read: one plan, all its tokens, dense float64, an explicit visibility mask. It has
// no cache, no batch, and skips only what the mask hides. The executor is tested against this file, and
// this file against outputs that an independent program computed (golden files beside the models).
#include <vector>

#include "kernels/base/plan.h"
#include "kernels/hstu/hstu_model.h"
#include "kernels/hstu/hstu_plan.h"

namespace troupe::hstu {

using Row = std::vector<double>;
using kernels::HstuRequest;

struct Reference {
  std::vector<Row> readouts;             // in plan order
  std::vector<std::vector<Row>> states;  // [after the input, after each layer][token]
};

// The plan must be sound (kernels::validate).
Reference compute(const kernels::HstuModel& model, const kernels::Plan& plan);

// Returns mask[t][u]: token t, counted over all segments, sees token u.
std::vector<std::vector<bool>> visibility(const kernels::HstuModel& model, const kernels::Plan& plan);

}  // namespace troupe::hstu
