// Chooses, for expected rankings, the tokens of blocks that are computed again.
#include "sim/world/expected_repair.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/base/check.h"

namespace troupe::sim {
namespace {

// Marks the first tokens of each item for a repair by first tokens, and the last ones of all for a window.
std::vector<std::uint32_t> marked_tokens(const Prompt& p, const router::RepairChoice& choice) {
  std::set<std::uint32_t> marked;
  std::uint32_t begin = 0;
  for (const std::vector<Token>& item : p.items) {
    const auto share = static_cast<std::uint32_t>(choice.share * static_cast<double>(item.size()) + 0.5);
    for (std::uint32_t t = 0; choice.by == router::RepairChoice::By::first && t < share; ++t)
      marked.insert(begin + t);
    begin += static_cast<std::uint32_t>(item.size());
  }
  for (std::uint32_t t = begin - std::min(begin, choice.window); t < begin; ++t) marked.insert(t);
  return {marked.begin(), marked.end()};
}

// Splits the history: the tokens before the first event, if any, then each event. If plans use prototypes,
// parts are also split where the model's prototypes begin or end to replace tokens.
std::vector<Part> history_parts(const Prompt& p, const router::RepairChoice& choice,
                                std::string_view model_version) {
  const PrototypeSet* const prototype_set = p.form.prototype_set.get();
  const bool of_model = prototype_set != nullptr && prototype_set->model_version() == model_version;
  std::vector<TokenRun> whole{TokenRun(p.user).first(p.form.user.size())};
  std::size_t at = p.form.user.size();
  for (const std::uint32_t event : p.events) {
    whole.push_back(TokenRun(p.user).subspan(at, event));
    at += event;
  }
  std::vector<Part> parts;
  std::size_t position = p.form.system.size();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const TokenRun run = whole[i];
    const auto stands = [&](std::size_t t) {
      return choice.prototypes
                 ? of_model && prototype_set->has_prototype(run[t], static_cast<std::uint32_t>(position + t))
                 : i > 0;
    };
    for (std::size_t begin = 0, end = 0; begin < run.size(); begin = end) {
      for (end = begin + 1; end < run.size() && stands(end) == stands(begin);) ++end;
      parts.push_back({run.subspan(begin, end - begin), stands(begin)});
    }
    position += run.size();
  }
  return parts;
}

// Sets the weights of the first and the last budget's scores: attention and lambda times the deviation, or
// one of them. If they differ, the larger ones are the repair's, and each budget's are fractions of these.
void weigh(router::RepairChoice::By first, router::RepairChoice::By last, float lambda, bool apart,
           kernels::Repair& repair) {
  using By = router::RepairChoice::By;
  const auto attention = [](By by) { return by == By::deviation ? 0.0F : 1.0F; };
  const auto deviation = [&](By by) {
    return by == By::deviation ? 1.0F : by == By::importance ? lambda : 0.0F;
  };
  repair.attention = std::max(attention(first), attention(last));
  repair.divergence = std::max(deviation(first), deviation(last));
  if (!apart || (attention(first) == attention(last) && deviation(first) == deviation(last))) return;
  for (const By by : {first, last})
    repair.factors.push_back({repair.attention == 0 ? 1 : attention(by) / repair.attention,
                              repair.divergence == 0 ? 1 : deviation(by) / repair.divergence});
}

// Chooses the first tokens of each block, and those of the window. If they leave more to blocks than may be
// left, each block gives the same larger share.
void choose_first(const Prompt& p, const router::RepairChoice& choice, std::size_t left_max, Blocks& blocks) {
  struct Span {
    std::size_t begin = 0, tokens = 0;
    bool is_item = false;
  };
  std::vector<Span> spans;
  std::size_t all = 0;
  const auto add = [&](std::size_t tokens, bool is_item) {
    spans.push_back({all, tokens, is_item});
    all += tokens;
  };
  for (const Part& part : blocks.history)
    if (part.is_reused_span) add(part.tokens.size(), false);
  if (blocks.item_tokens > 0)
    for (std::size_t i = 0; i < p.items.size(); ++i)
      if (!p.in_place[i]) add(p.items[i].size(), true);
  const bool apart = choice.history >= 0 && blocks.history_tokens > 0 && blocks.item_tokens > 0;
  std::set<std::uint32_t> chosen;
  for (std::size_t i = all - std::min<std::size_t>(choice.window, all); i < all; ++i)
    chosen.insert(static_cast<std::uint32_t>(i));
  const auto choose = [&](double least_share) {
    for (const Span& span : spans) {
      const bool of_items = apart ? span.is_item : blocks.item_tokens > 0;
      const auto tokens = static_cast<double>(span.tokens);
      const double first = std::max(std::round((of_items ? choice.share : choice.history_share()) * tokens),
                                    std::ceil(least_share * tokens - 1e-9));
      for (std::size_t t = 0; t < span.tokens && static_cast<double>(t) < first; ++t)
        chosen.insert(static_cast<std::uint32_t>(span.begin + t));
    }
  };
  choose(0);
  const std::size_t least = all - std::min(all, left_max);
  if (chosen.size() < least) choose(static_cast<double>(least) / static_cast<double>(all));
  blocks.repair.always.assign(chosen.begin(), chosen.end());
  blocks.repair.budgets.assign(apart ? 2 : 1, 0);
}

}  // namespace

ItemRepair item_repair_of(const Prompt& p, const RequestedRepair& asked, std::size_t prompt_tokens) {
  using By = router::RepairChoice::By;
  const router::RepairChoice& choice = asked.choice;
  const ItemRepair none;
  const auto most = static_cast<std::size_t>(asked.approximate_max * static_cast<double>(prompt_tokens));
  if (choice == router::RepairChoice{} || most == 0) return none;
  if (choice.share >= 1 && p.item_tokens <= most) return {true, false, {}, p.item_tokens};
  ItemRepair of{.in_order = true};
  std::vector<std::uint32_t> marked = marked_tokens(p, choice);
  std::size_t scored = 0;
  if (choice.by != By::first)
    scored = std::min(static_cast<std::size_t>(choice.share * static_cast<double>(p.item_tokens) + 0.5),
                      p.item_tokens - marked.size());
  const bool corrects = choice.exact_layers > 1 || (choice.mean && scored + marked.size() > 0);
  if (corrects && p.item_tokens > most) return none;
  while (!corrects && scored + marked.size() > most)
    if (scored > 0)
      --scored;
    else
      marked.pop_back();
  of.changed = corrects ? p.item_tokens : scored + marked.size();
  if (of.changed == 0) return none;
  of.repair.always = marked;
  of.repair.budgets = {static_cast<std::uint32_t>(scored)};
  of.repair.attention = choice.by == By::first || choice.by == By::deviation ? 0 : 1;
  of.repair.divergence = choice.by == By::deviation    ? 1.0F
                         : choice.by == By::importance ? static_cast<float>(choice.lambda)
                                                       : 0.0F;
  of.repair.exact_layers = choice.exact_layers;
  of.repair.mean = choice.mean;
  if (choice.by == By::tail)  // behind the system prompt, the blocks and the items
    of.repair.attending = static_cast<std::uint32_t>((p.form.system.empty() ? 0 : 1) + 2 * p.items.size());
  return of;
}

Blocks blocks_of(const Prompt& p, const RequestedRepair& asked, std::string_view model_version,
                 bool history_too, std::size_t prompt_tokens) {
  using By = router::RepairChoice::By;
  const router::RepairChoice& choice = asked.choice;
  Blocks blocks;
  if (asked.approximate_max <= 0) return blocks;
  if (choice.share < 1) blocks.item_tokens = p.item_tokens - p.in_place_tokens;
  if (history_too && choice.history_share() < 1) blocks.history = history_parts(p, choice, model_version);
  for (const Part& part : blocks.history)
    if (part.is_reused_span) blocks.history_tokens += part.tokens.size();
  const std::size_t history = blocks.history_tokens, items = blocks.item_tokens;
  if (history + items == 0) return blocks;
  blocks.repair.exact_layers = choice.exact_layers;
  blocks.repair.mean = choice.mean;
  const auto may_be_left =
      static_cast<std::size_t>(asked.approximate_max * static_cast<double>(prompt_tokens));
  const bool apart = choice.history >= 0 && history > 0 && items > 0;
  const By first = items == 0 || apart ? choice.history_selection() : choice.by,
           last = apart ? choice.by : first;
  if (first == By::first && last == By::first) {
    choose_first(p, choice, may_be_left, blocks);
    return blocks;
  }
  TROUPE_CHECK(first != By::first && last != By::first, "no budget is chosen by position beside scores");
  // The window is the end of history and items; it covers the items' end first.
  const std::size_t window = std::min<std::size_t>(choice.window, history + items);
  const std::size_t of_items = std::min(window, items), of_history = window - of_items;
  for (std::size_t i = history + items - window; i < history + items; ++i)
    blocks.repair.always.push_back(static_cast<std::uint32_t>(i));
  const auto share_of = [](double share, std::size_t tokens, std::size_t fixed) {
    return static_cast<std::uint32_t>(
        std::min(static_cast<std::size_t>(share * static_cast<double>(tokens) + 0.5), tokens - fixed));
  };
  if (apart)
    blocks.repair.budgets = {share_of(choice.history, history, of_history),
                             share_of(choice.share, items, of_items)};
  else
    blocks.repair.budgets = {
        share_of(items > 0 ? choice.share : choice.history_share(), history + items, window)};
  const std::size_t free[] = {apart ? history - of_history : history + items - window, items - of_items};
  for (std::size_t b = 0; b < blocks.repair.budgets.size(); ++b)
    while (blocks.left() > may_be_left && blocks.repair.budgets[b] < free[b]) ++blocks.repair.budgets[b];
  weigh(first, last, static_cast<float>(choice.lambda), apart, blocks.repair);
  blocks.by_tail = first == By::tail || last == By::tail;
  return blocks;
}

}  // namespace troupe::sim
