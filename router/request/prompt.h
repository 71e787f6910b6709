#pragma once
// What frames every prompt of a model, and how much of a user's history fits into it.
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"
#include "runtime/actor/prompt_form.h"

namespace troupe::router {

// Numbers of a tower's events, ascending; one action for each event.
std::vector<std::uint32_t> tower_events(const Tower& tower, std::span<const std::int64_t> actions);

std::size_t item_tokens_max(std::span<const ItemView> items);  // 0 if there are none
// Positions that a prompt takes whose items take so many, without any history.
std::size_t positions_without_history(const PromptForm& form, std::size_t item_positions);

// The newest events that fit beside such items, or from the oldest on that a tower reads; `cut` counts the
// dropped ones.
struct FittedHistory {
  Tokens tokens;                      // form.user + history, form.event before each event
  std::vector<std::uint32_t> events;  // tokens of each, with what precedes it
  std::uint32_t cut = 0;
  std::vector<Feature> features = {};  // of the events that are kept
};
FittedHistory fit_history(const PromptForm& form, const Profile& profile, std::size_t item_positions);

}  // namespace troupe::router
