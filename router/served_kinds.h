#pragma once
// Returns the request kinds that a model answers, separated by commas, as /v1/models shows them.
#include <string_view>

#include "runtime/actor/prompt_form.h"

namespace troupe::router {

inline std::string_view served_kinds(const PromptForm& form) {
  if (form.generates()) return "generate, complete, score";
  if (form.searches_items) return "rank, generate";
  return form.items_are_tokens() ? "rank" : "rank, score";
}

}  // namespace troupe::router
