#pragma once
// Explains how a ranking was computed: the prompt as the model saw it, where the keys and values of
// each segment came from, where each candidate's score was read, and what was left out. Built only
// for a request that asks for it.
#include <cstdint>
#include <span>

#include "router/request/candidate.h"
#include "router/request/prompt.h"
#include "runtime/actor/catalog.h"
#include "runtime/actor/prompt_form.h"

namespace troupe::router {

// A ranking that has been run. Everything that it refers to must outlive the call.
struct ExplainedRun {
  const Candidate& sent;                 // plan and blocks that the worker was sent
  std::span<const std::uint8_t> reused;  // per segment: 1 if its block was reused; shorter = 0
  std::span<const ItemView> items;       // candidates that were ranked, in the request's order
  const PromptForm& form;
  const FittedHistory& history;  // of this plan
};

// Returns the explanation without texts; the server has the model's tokenizer and adds them.
Explanation explain(const ExplainedRun& run);

}  // namespace troupe::router
