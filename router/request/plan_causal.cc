// Builds the plain prompt: system → user → items one after the other, each seeing everything before
// it → instruction → discriminant; or each item with its score after it.
//
//   causal: computed in full, except for the user's block
//   blocks: items reuse keys and values of blocks that were computed alone, with a repair (RcLLM);
//           with all of their tokens repaired it equals the plain prompt. An item without a block may
//           be computed in its place instead, as in the plain prompt
//   all_blocks: the events of the history do so too, or the parts that prototypes replace
//   prototypes: all_blocks with prototypes, which a policy weighs beside all_blocks without them
#include "router/request/item_block.h"
#include "router/request/plan_writer.h"
#include "runtime/actor/user_home.h"

namespace troupe::router {
namespace {

std::int32_t size32(const Tokens& tokens) { return static_cast<std::int32_t>(tokens.size()); }

// Writes the system prompt and the history; returns where the items begin.
std::int32_t begin(PlanWriter& plan, const RankPrompt& prompt) {
  const std::int32_t start = size32(prompt.form.system);
  plan.add_user(start);
  return start + size32(prompt.history);
}

// Returns the item's tokens behind the form's item mark, in a block and in the prompt.
Tokens candidate_tokens(const RankPrompt& prompt, const ItemView& item) {
  if (prompt.form.item.empty()) return prompt.tokens_of(item);
  return item_block_tokens(ItemBlockKind::movable, prompt.form, item.tokens);
}

// A run of the history's tokens, reused from a block or computed.
struct HistoryPart {
  Tokens tokens;
  bool has_block = false;
};

// Splits the history into the tokens before the events, and each event.
std::vector<HistoryPart> events_of(const RankPrompt& prompt) {
  std::size_t at = prompt.history.size();
  for (const std::uint32_t tokens : prompt.events) at -= tokens;
  std::vector<HistoryPart> parts;
  if (at > 0) parts.push_back({prompt.history.part(0, at)});
  for (const std::uint32_t tokens : prompt.events) {
    parts.push_back({prompt.history.part(at, tokens), true});
    at += tokens;
  }
  return parts;
}

// Splits the history where prototypes begin or end to replace tokens. Another model version has no
// prototypes.
std::vector<HistoryPart> prototype_set_of(const RankPrompt& prompt) {
  const PrototypeSet* const prototype_set = prompt.form.prototype_set.get();
  const bool any =
      prototype_set && (!prompt.names || prompt.names->model_version() == prototype_set->model_version());
  std::vector<HistoryPart> parts;
  auto position = static_cast<std::uint32_t>(prompt.form.system.size());
  for (const HistoryPart& event : events_of(prompt)) {
    const std::size_t first = parts.size();
    std::size_t begin = 0;
    for (std::size_t t = 0; t < event.tokens.size(); ++t) {
      const bool stands = any && prototype_set->has_prototype(event.tokens[t], position++);
      if (parts.size() > first && parts.back().has_block == stands) continue;
      if (parts.size() > first) parts.back().tokens = event.tokens.part(begin, t - begin);
      parts.push_back({{}, stands});
      begin = t;
    }
    if (parts.size() > first) parts.back().tokens = event.tokens.part(begin, event.tokens.size() - begin);
  }
  return parts;
}

std::vector<HistoryPart> history_parts(const RankPrompt& prompt) {
  return prompt.repair.prototypes ? prototype_set_of(prompt) : events_of(prompt);
}

// Parts of the prompt that are blocks.
struct ReusedParts {
  bool history = false, items = false;
};

Candidate reusing(std::string_view name, const RankPrompt& prompt, ReusedParts reused) {
  PlanWriter plan(name, prompt);
  plan.system();
  const std::vector<HistoryPart> parts = history_parts(prompt);
  std::vector<Tokens> items;
  items.reserve(prompt.items.size());
  plan.reserve(2 * (parts.size() + prompt.items.size()) + 4);
  plan.begin_blocks();
  for (const HistoryPart& part : parts) {
    if (!reused.history || !part.has_block) continue;
    if (prompt.repair.prototypes)
      plan.add_block_of_prototypes(part.tokens);
    else
      plan.add_block(SegmentKind::user, part.tokens, owner_of_user(prompt.tenant, prompt.user));
  }
  const auto is_block = [&](std::size_t item) { return reused.items && !prompt.is_in_place(item); };
  for (const ItemView& item : prompt.items) {
    items.push_back(candidate_tokens(prompt, item));
    if (is_block(items.size() - 1)) plan.add_block(SegmentKind::item, items.back(), std::string(item.id));
  }
  plan.end_blocks();
  std::int32_t place = size32(prompt.form.system);
  if (reused.history) {
    for (const HistoryPart& part : parts) {
      if (part.has_block)
        plan.add_reused_span(place, prompt.repair.prototypes);
      else
        plan.add(SegmentKind::user, part.tokens, place);
      place += size32(part.tokens);
    }
  } else {
    place = begin(plan, prompt);
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Tokens& item = items[i];
    if (is_block(i))
      plan.add_reused_span(place);
    else
      plan.add(SegmentKind::item, item, place);
    if (reused.items && !is_block(i)) plan.note_in_place(i);
    place += size32(item);
    plan.add_score(place);
    place += size32(prompt.form.score);
  }
  plan.repair();
  return std::move(plan).finish(place);
}

Candidate plain(std::string_view name, const RankPrompt& prompt) {
  PlanWriter plan(name, prompt);
  plan.system();
  std::int32_t place = begin(plan, prompt);
  for (const ItemView& item : prompt.items) {
    const Tokens tokens = candidate_tokens(prompt, item);
    plan.add(SegmentKind::item, tokens, place);
    place += size32(tokens);
    plan.add_score(place);
    place += size32(prompt.form.score);
  }
  return std::move(plan).finish(place);
}

// Returns the parts that stay blocks: none if nothing may be approximate; a part that is computed
// in full is not one.
ReusedParts left_of(const RankPrompt& prompt) {
  if (prompt.approximate_max <= 0) return {};
  return {.history = prompt.repair.history_share() < 1, .items = prompt.repair.share < 1};
}

Candidate left_or_plain(std::string_view name, const RankPrompt& prompt, ReusedParts reused) {
  return reused.history || reused.items ? reusing(name, prompt, reused) : plain(name, prompt);
}

}  // namespace

Candidate causal_plan(const RankPrompt& prompt) { return plain("causal", prompt); }

Candidate blocks_plan(const RankPrompt& prompt) {
  return left_or_plain("blocks", prompt, {.items = left_of(prompt).items});
}

Candidate all_blocks_plan(const RankPrompt& prompt) {
  return left_or_plain("all_blocks", prompt, left_of(prompt));
}

Candidate prototypes_plan(const RankPrompt& prompt) {
  RankPrompt own = prompt;
  own.repair.prototypes = true;
  return left_or_plain("prototypes", own, left_of(own));
}

}  // namespace troupe::router
