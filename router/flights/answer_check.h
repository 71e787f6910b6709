#pragma once
// Checks a worker's answer: it must come from the pinned model, have the plan's shape, and contain
// only finite logits. An answer that fails the check is never passed on (promise 1).
#include <optional>
#include <string>
#include <vector>

#include "router/request/request.h"
#include "runtime/actor/messages.h"

namespace troupe::router {

std::optional<Refusal> validate_answer(const Plan& plan, const std::string& model_version,
                                       const Executed& executed);
// Does the same check, and also the request's own check of the paths that were found for it.
std::optional<Refusal> validate_answer(const Request& request, const Plan& plan,
                                       const std::string& model_version, const Executed& executed);

}  // namespace troupe::router
