#include "sim/world/by_hand.h"

#include <algorithm>

namespace troupe::sim {
namespace {

using TokenRun = std::span<const Token>;

// Of segments that are computed one after the other.
class Values {
 public:
  Values(std::string_view model_version, const ToyFamily& family)
      : key_(model_key(model_version)), family_(family) {}

  // Its value joins `to`; an empty segment has none.
  void add(TokenRun tokens, std::size_t start, std::vector<SegmentValue> seen, std::vector<SegmentValue>& to) {
    tokens_ += static_cast<std::uint32_t>(tokens.size());
    if (!tokens.empty()) to.push_back(family_.value_of(key_, tokens, static_cast<std::int32_t>(start), seen));
  }
  std::uint32_t tokens() const { return tokens_; }

 private:
  std::uint64_t key_;
  const ToyFamily& family_;
  std::uint32_t tokens_ = 0;
};

struct Prompt {
  const router::PromptForm& form;
  std::vector<Token> user;  // the form's tokens, then the history
  std::span<const Item> items;
  std::size_t longest_item = 0;
};

// The oldest events go until the rest fits into the model's positions.
Prompt prompt_of(const router::PromptForm& form, const Profile& profile, std::span<const Item> items,
                 std::uint32_t& cut) {
  Prompt prompt{form, {form.user.begin(), form.user.end()}, items};
  for (const Item& item : items) prompt.longest_item = std::max(prompt.longest_item, item.tokens.size());
  std::size_t positions = form.system.size() + form.user.size() + prompt.longest_item +
                          form.instruction.size() + form.discriminant.size() + profile.tokens.size();
  std::size_t gone = 0;
  for (cut = 0; positions > form.positions_max && cut < profile.events.size(); ++cut) {
    positions -= profile.events[cut];
    gone += profile.events[cut];
  }
  const TokenRun kept = TokenRun(profile.tokens).subspan(gone);
  prompt.user.insert(prompt.user.end(), kept.begin(), kept.end());
  return prompt;
}

// system → user → items, each behind the user → instruction → discriminant, behind the longest item.
std::vector<SegmentValue> by_user_plan(const Prompt& p, Values& values) {
  std::vector<SegmentValue> seen;
  values.add(p.form.system, 0, {}, seen);
  values.add(p.user, p.form.system.size(), seen, seen);
  const std::vector<SegmentValue> context = seen;
  for (const Item& item : p.items)
    values.add(item.tokens, p.form.system.size() + p.user.size(), context, seen);
  return seen;
}

// system → items, each behind the system → user, behind the longest item → instruction → discriminant.
std::vector<SegmentValue> by_item_plan(const Prompt& p, Values& values) {
  std::vector<SegmentValue> seen;
  values.add(p.form.system, 0, {}, seen);
  const std::vector<SegmentValue> context = seen;
  for (const Item& item : p.items) values.add(item.tokens, p.form.system.size(), context, seen);
  values.add(p.user, p.form.system.size() + p.longest_item, seen, seen);
  return seen;
}

}  // namespace

std::optional<RankingByHand> rank_by_hand(const router::PromptForm& form, std::string_view model_version,
                                          std::string_view plan, const Profile& profile,
                                          std::span<const Item> items, const ToyFamily& family) {
  if (plan != "user" && plan != "item") return std::nullopt;
  RankingByHand ranking;
  const Prompt prompt = prompt_of(form, profile, items, ranking.history_cut);
  Values values(model_version, family);
  std::vector<SegmentValue> seen =
      plan == "user" ? by_user_plan(prompt, values) : by_item_plan(prompt, values);
  const std::size_t end = form.system.size() + prompt.user.size() + prompt.longest_item;
  values.add(form.instruction, end, seen, seen);
  values.add(form.discriminant, end + form.instruction.size(), seen, seen);
  std::vector<Token> rows;
  for (const Item& item : items) rows.push_back(item.identifier);
  const auto last = static_cast<std::uint32_t>(form.discriminant.size() - 1);
  ranking.scores = family.logits_of(seen.back(), last, rows).scores;
  ranking.tokens = values.tokens();
  return ranking;
}

ScoresByHand score_by_hand(std::string_view model_version, const ScoreRequest& request, const ToyFamily& family) {
  ScoresByHand scores;
  Values values(model_version, family);
  std::vector<SegmentValue> context;
  values.add(request.query, 0, {}, context);
  for (const TokenList& item : request.items) {
    std::vector<SegmentValue> value;
    values.add(item.tokens, request.query.size(), context, value);
    scores.items.push_back(
        family.logits_of(value.at(0), static_cast<std::uint32_t>(item.tokens.size() - 1), request.label_tokens));
  }
  scores.tokens = values.tokens();
  return scores;
}

}  // namespace troupe::sim
