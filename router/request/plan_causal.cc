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

// A run of the history's tokens, with a block or computed.
struct HistoryPart {
  Tokens tokens;
  bool has_block = false;
};

// What precedes the events, and each of them; cut where prototypes begin or end to stand for tokens, if they do.
std::vector<HistoryPart> history_parts(const RankPrompt& prompt) {
  const std::span<const std::uint8_t> stand_ins = prompt.stand_ins;
  std::size_t at = prompt.history.size();
  for (const std::uint32_t tokens : prompt.events) at -= tokens;
  std::vector<HistoryPart> parts;
  const auto add = [&](std::size_t begin, std::size_t end, bool event) {
    while (begin < end) {
      std::size_t next = end;
      if (!stand_ins.empty())
        for (next = begin + 1; next < end && stand_ins[next] == stand_ins[begin];) ++next;
      parts.push_back({prompt.history.part(begin, next - begin), stand_ins.empty() ? event : stand_ins[begin] != 0});
      begin = next;
    }
  };
  add(0, at, false);
  for (const std::uint32_t tokens : prompt.events) {
    add(at, at + tokens, true);
    at += tokens;
  }
  return parts;
}

// Which parts of it are blocks.
struct Reused {
  bool history = false, items = false;
};

Candidate reusing(std::string_view name, const RankPrompt& prompt, Reused reused) {
  PlanWriter plan(name, prompt);
  plan.system();
  const std::vector<HistoryPart> parts = history_parts(prompt);
  std::vector<Tokens> items;
  plan.begin_blocks();
  for (const HistoryPart& part : parts)
    if (reused.history && part.has_block)
      plan.add_block(SegmentKind::user, part.tokens, user_key(prompt.tenant, prompt.user));
  for (const ItemView& item : prompt.items) {
    items.push_back(candidate_tokens(prompt, item));
    if (reused.items) plan.add_block(SegmentKind::item, items.back(), std::string(item.id));
  }
  plan.end_blocks();
  std::int32_t place = size32(prompt.form.system);
  if (reused.history) {
    for (const HistoryPart& part : parts) {
      if (part.has_block)
        plan.add_place(place);
      else
        plan.add(SegmentKind::user, part.tokens, place);
      place += size32(part.tokens);
    }
  } else {
    place = begin(plan, prompt);
  }
  for (const Tokens& item : items) {
    if (reused.items)
      plan.add_place(place);
    else
      plan.add(SegmentKind::item, item, place);
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

// What is left of it to blocks: nothing where nothing may be approximate, or all is computed.
Reused left_of(const RankPrompt& prompt) {
  if (prompt.approximate_max <= 0) return {};
  return {.history = prompt.repair.history_share() < 1, .items = prompt.repair.share < 1};
}

Candidate left_or_plain(std::string_view name, const RankPrompt& prompt, Reused reused) {
  return reused.history || reused.items ? reusing(name, prompt, reused) : plain(name, prompt);
}

}  // namespace

Candidate causal_plan(const RankPrompt& prompt) { return plain("causal", prompt); }

Candidate blocks_plan(const RankPrompt& prompt) {
  return left_or_plain("blocks", prompt, {.items = left_of(prompt).items});
}

Candidate all_blocks_plan(const RankPrompt& prompt) { return left_or_plain("all_blocks", prompt, left_of(prompt)); }

}  // namespace troupe::router
