// The plain prompt: system → user → items one after the other, each seeing all before it → instruction →
// discriminant; or each item with its score behind it.
//   causal: computed as it is, but for the user's block
//   blocks: items have keys and values of blocks that were computed alone, repaired (RcLLM); with all of their tokens
//   repaired it is the plain prompt
//   all_blocks: so have the events of the history
#include "router/request/plan_writer.h"

namespace troupe::router {
namespace {

std::int32_t size32(const Tokens& tokens) { return static_cast<std::int32_t>(tokens.size()); }

// Returns where the items begin.
std::int32_t begin(PlanWriter& plan, const RankPrompt& prompt) {
  const std::int32_t start = size32(prompt.form.system);
  plan.add_user(start);
  return start + size32(prompt.history);
}

// With what precedes it.
Tokens candidate_tokens(const RankPrompt& prompt, const ItemView& item) {
  if (prompt.form.item.empty()) return prompt.tokens_of(item);
  std::vector<Token> tokens = prompt.form.item.copy();
  tokens.insert(tokens.end(), item.tokens.begin(), item.tokens.end());
  return tokens;
}

// What precedes the events, and each of them.
std::vector<Tokens> history_parts(const RankPrompt& prompt) {
  std::size_t at = prompt.history.size();
  for (const std::uint32_t tokens : prompt.events) at -= tokens;
  std::vector<Tokens> parts{prompt.history.part(0, at)};
  for (const std::uint32_t tokens : prompt.events) {
    parts.push_back(prompt.history.part(at, tokens));
    at += tokens;
  }
  return parts;
}

Candidate reusing(std::string_view name, const RankPrompt& prompt, bool history) {
  PlanWriter plan(name, prompt);
  plan.system();
  const std::vector<Tokens> parts = history_parts(prompt);
  std::vector<Tokens> items;
  plan.begin_blocks();
  for (std::size_t i = 1; history && i < parts.size(); ++i)
    plan.add_block(SegmentKind::user, parts[i], user_key(prompt.tenant, prompt.user));
  for (const ItemView& item : prompt.items) {
    items.push_back(candidate_tokens(prompt, item));
    plan.add_block(SegmentKind::item, items.back(), std::string(item.id));
  }
  plan.end_blocks();
  std::int32_t place = size32(prompt.form.system);
  if (history) {
    plan.add(SegmentKind::user, parts[0], place);
    place += size32(parts[0]);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      plan.add_place(place);
      place += size32(parts[i]);
    }
  } else {
    place = begin(plan, prompt);
  }
  for (const Tokens& item : items) {
    plan.add_place(place);
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

// Nothing of it may be approximate, or nothing is.
bool is_exact(const RankPrompt& prompt) { return prompt.repair.share >= 1 || prompt.approximate_max <= 0; }

}  // namespace

Candidate causal_plan(const RankPrompt& prompt) { return plain("causal", prompt); }

Candidate blocks_plan(const RankPrompt& prompt) {
  return is_exact(prompt) ? plain("blocks", prompt) : reusing("blocks", prompt, false);
}

Candidate all_blocks_plan(const RankPrompt& prompt) {
  return is_exact(prompt) ? plain("all_blocks", prompt) : reusing("all_blocks", prompt, true);
}

}  // namespace troupe::router
