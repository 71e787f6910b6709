#pragma once
// The form of a ranker that was trained for several arrangements, as the papers' rankers are.
#include <utility>

#include "runtime/actor/prompt_form.h"

namespace troupe {

// Returns the form with three declared arrangements, of which user first and item first are
// interchangeable.
inline PromptForm shared_ranker(PromptForm form) {
  form.arrangements = {Arrangement::item_first, Arrangement::user_first, Arrangement::causal};
  form.interchangeable = {Arrangement::item_first, Arrangement::user_first};
  return form;
}

}  // namespace troupe
