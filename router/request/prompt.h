#pragma once
// What frames every prompt of a model, and how much of a user's history fits into it.
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

// The tokens that frame every prompt of a model, and what the model allows. A ranker reads its scores at a
// discriminant; a generator's prompt has none: what follows the history is what it is asked for.
struct PromptForm {
  Tokens system, user, instruction, discriminant;  // `user` precedes the history's tokens
  std::uint32_t positions_max = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t events_max = 0;  // of a history that are read, the newest; 0: all that fit
  // Of a generator: a history is kept as blocks of so many tokens and a rest, so that one with new events at its end
  // finds the others; 0: as one block.
  std::uint32_t history_part = 0;

  bool generates() const { return discriminant.empty(); }
};

std::size_t item_tokens_max(std::span<const ItemView> items);  // 0 if there are none
// Positions that a prompt takes whose items take so many, without any history.
std::size_t positions_without_history(const PromptForm& form, std::size_t item_positions);

// The newest events that fit beside such items; `cut` counts the dropped ones.
struct FittedHistory {
  Tokens tokens;  // form.user + history
  std::uint32_t cut = 0;
};
FittedHistory fit_history(const PromptForm& form, const Profile& profile, std::size_t item_positions);

}  // namespace troupe::router
