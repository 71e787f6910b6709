#pragma once
// Says from a form alone under which arrangements a ranking may be answered, or with which code it must be
// refused. It does not use the router's code, which it judges (promise 21).
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/prompt_form.h"

namespace troupe::sim {

// Returns the error code with which a well-formed ranking must be refused because of its arrangement or its
// policy; "" = it must not be.
std::string expected_refusal(const RankRequest& request, const PromptForm& form);

// Returns the arrangements under which a request without such a refusal may be answered. `usual`: name of
// the policy of requests that name none.
std::vector<Arrangement> expected_arrangements(const RankRequest& request, const PromptForm& form,
                                               std::string_view usual);

}  // namespace troupe::sim
