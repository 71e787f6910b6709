#pragma once
// The definition of SASRec in float64, written as a loop over events, without plans, pages or products.
#include <vector>

#include "kernels/base/tokens.h"
#include "kernels/sasrec/sasrec_model.h"

namespace troupe::sasrec {

// Returns the state of every event after the last layer, [event][hidden].
std::vector<std::vector<double>> reference_states(const kernels::SasrecModel& model,
                                                  const std::vector<kernels::Token>& history);

// Returns the similarity of a state to each row of the item embedding; row 0 is padding.
std::vector<double> reference_similarities(const kernels::SasrecModel& model,
                                           const std::vector<double>& state);

}  // namespace troupe::sasrec
