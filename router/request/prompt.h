#pragma once
// Fits a user's history into a prompt: the frame of a model's prompts and how many events fit
// beside it.
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"
#include "runtime/actor/prompt_form.h"

namespace troupe::router {

// Returns the indices of a tower's events, ascending; `actions` has one action per event.
std::vector<std::uint32_t> tower_events(const Tower& tower, std::span<const std::int64_t> actions);

std::size_t item_tokens_max(std::span<const ItemView> items);  // 0 if there are no items
// Returns the positions that a prompt takes without any history, given those of its items.
std::size_t positions_without_history(const PromptForm& form, std::size_t item_positions);

// Newest events that fit beside the items; for towers, all from the oldest event that a tower
// reads.
struct FittedHistory {
  Tokens tokens;                      // form.user + history, form.event before each event
  std::vector<std::uint32_t> events;  // tokens of each event, including form.event
  std::uint32_t cut = 0;
  std::vector<Feature> features = {};  // of the kept events
};
FittedHistory fit_history(const PromptForm& form, const Profile& profile, std::size_t item_positions);

}  // namespace troupe::router
