#pragma once
// HSTU, written to be read: one plan, all its tokens, dense float64, an explicit mask of who sees whom. No
// cache, no batch, nothing skipped but what the mask hides. The executor is tested against this file, and
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

// The plan must be sound (kernels::find_fault).
Reference compute(const kernels::HstuModel& model, const kernels::Plan& plan);

// Whether token t of the plan, counted through, sees token u.
std::vector<std::vector<bool>> visibility(const kernels::HstuConfig& config, const kernels::Plan& plan);

}  // namespace troupe::hstu
