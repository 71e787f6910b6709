#pragma once
// Whether a worker's answer is one: computed by the model that the request is pinned to, in the plan's shape,
// every logit a finite number. What is not is never passed on as an answer (promise 1).
#include <optional>
#include <string>
#include <vector>

#include "router/request/request.h"
#include "runtime/actor/messages.h"

namespace troupe::router {

std::optional<Refusal> find_answer_fault(const Plan& plan, const std::string& model_version,
                                         const Executed& executed);
// The same, and what the request itself says of paths that were found for it.
std::optional<Refusal> find_answer_fault(const Request& request, const Plan& plan,
                                         const std::string& model_version, const Executed& executed);

// Numbers that are read there: one of a head, or one of each row.
std::size_t numbers_of(const Readout& readout);
// The row's scores, one per `count`. A row that passed the check has that shape already.
std::vector<double> scores_of(const Executed& executed, std::size_t row, std::size_t count);

}  // namespace troupe::router
