#pragma once
// What may be asked of a model, as /v1/models says it: kinds of requests with commas between.
#include <string_view>

#include "runtime/actor/prompt_form.h"

namespace troupe::router {

inline std::string_view served_kinds(const PromptForm& form) {
  if (form.generates()) return "generate, complete, score";
  return form.history_plan.empty() ? "rank, score" : "rank";
}

}  // namespace troupe::router
