// Parses and writes how reused blocks are repaired, and selects a plan's tokens for it. Repair
// computes the chosen tokens of reused blocks exactly (RcLLM).
#include "router/request/repair_choice.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace troupe::router {
namespace {

constexpr std::string_view selections[] = {"first", "attention", "tail", "deviation", "importance"};
constexpr unsigned window_max = 1'000'000;

// Parses a whole number up to `most`; nullopt for any other text.
std::optional<unsigned> number_in(std::string_view text, unsigned most) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > most) return std::nullopt;
  return number;
}

std::optional<unsigned> number_behind(std::string_view word, std::string_view text, unsigned most) {
  if (!text.starts_with(word)) return std::nullopt;
  return number_in(text.substr(word.size()), most);
}

// Returns false if the part is unknown or was given before.
bool add_part(std::string_view part, RepairChoice& repair) {
  const RepairChoice before = repair;
  if (part == "mean")
    repair.mean = true;
  else if (part == "layer2")
    repair.exact_layers = 2;
  else if (part == "prototypes")
    repair.prototypes = true;
  else if (const auto per_cent = number_behind("history", part, 100); per_cent && repair.history < 0)
    repair.history = *per_cent / 100.0;
  else if (const auto tokens = number_behind("window", part, window_max); tokens && repair.window == 0)
    repair.window = *tokens;
  else if (const auto by = find_selection(part); by && repair.by == RepairChoice::By::first)
    repair.by = *by;
  return repair != before;
}

std::uint32_t tokens_at(const Plan& plan, const kernels::Repair::ReusedSpan& place) {
  return static_cast<std::uint32_t>(plan.segments[place.segment].tokens.size());
}

// Splits the spans into budgets, one for all or one each for history and items; returns the share
// of each that is chosen.
std::vector<double> divide_budgets(Plan& plan, const RepairChoice& choice) {
  const auto is_item = [&](const kernels::Repair::ReusedSpan& place) {
    return plan.segments[place.segment].kind == SegmentKind::item;
  };
  auto& reused_spans = plan.repair.reused_spans;
  const bool items = std::ranges::any_of(reused_spans, is_item),
             history = !std::ranges::all_of(reused_spans, is_item);
  if (choice.history < 0 || !items || !history) return {items ? choice.share : choice.history_share()};
  for (kernels::Repair::ReusedSpan& place : reused_spans) place.budget = is_item(place);
  return {choice.history, choice.share};
}

// Marks the first tokens of each span: its share, raised so that at least `least` of all tokens are
// marked.
void mark_first(const Plan& plan, const std::vector<double>& shares, double least,
                std::vector<bool>& always) {
  std::size_t number = 0;
  for (const kernels::Repair::ReusedSpan& place : plan.repair.reused_spans) {
    const std::uint32_t tokens = tokens_at(plan, place);
    const double again =
        std::max(std::round(shares[place.budget] * tokens), std::ceil(least * tokens - 1e-9));
    for (std::uint32_t t = 0; t < tokens && t < again; ++t) always[number + t] = true;
    number += tokens;
  }
}

// Sets each budget to its share beside the marked tokens, then raises budgets in order until
// `least` tokens are chosen.
void fill_budgets(Plan& plan, const std::vector<double>& shares, std::size_t least,
                  const std::vector<bool>& always) {
  std::vector<std::size_t> tokens(shares.size()), free(shares.size());
  std::size_t number = 0, chosen = static_cast<std::size_t>(std::ranges::count(always, true));
  for (const kernels::Repair::ReusedSpan& place : plan.repair.reused_spans)
    for (std::uint32_t t = 0; t < tokens_at(plan, place); ++t)
      ++tokens[place.budget], free[place.budget] += !always[number++];
  for (std::size_t b = 0; b < shares.size(); ++b) {
    const auto wanted = static_cast<std::size_t>(shares[b] * static_cast<double>(tokens[b]) + 0.5);
    plan.repair.budgets[b] = static_cast<std::uint32_t>(std::min(wanted, free[b]));
    chosen += plan.repair.budgets[b];
  }
  for (std::size_t b = 0; b < shares.size() && chosen < least; ++b) {
    const std::size_t more = std::min(least - chosen, free[b] - plan.repair.budgets[b]);
    plan.repair.budgets[b] += static_cast<std::uint32_t>(more);
    chosen += more;
  }
}

// Returns the first segment behind the last span or, if that is an item's, behind the last item.
std::uint32_t behind_reused(const Plan& plan) {
  std::uint32_t last = plan.repair.reused_spans.back().segment;
  if (plan.segments[last].kind == SegmentKind::item)
    for (std::uint32_t s = last + 1; s < plan.segments.size(); ++s)
      if (plan.segments[s].kind == SegmentKind::item) last = s;
  return last + 1;
}

}  // namespace

std::string_view name_of(RepairChoice::By by) { return selections[static_cast<std::size_t>(by)]; }

std::optional<RepairChoice::By> find_selection(std::string_view name) {
  const auto at = std::ranges::find(selections, name);
  if (at == std::end(selections)) return std::nullopt;
  return static_cast<RepairChoice::By>(at - std::begin(selections));
}

std::string correction_of(const RepairChoice& repair) {
  std::string name = repair.mean ? "mean" : "";
  if (repair.exact_layers > 1)
    name += (name.empty() ? "layer" : "+layer") + std::to_string(repair.exact_layers);
  return name.empty() ? "none" : name;
}

std::string text_of(const RepairChoice& repair) {
  std::string text = std::to_string(std::lround(100 * repair.share));
  if (repair.by != RepairChoice::By::first) text += ':' + std::string(name_of(repair.by));
  if (repair.mean) text += ":mean";
  if (repair.exact_layers > 1) text += ":layer" + std::to_string(repair.exact_layers);
  if (repair.history >= 0) text += ":history" + std::to_string(std::lround(100 * repair.history));
  if (repair.window > 0) text += ":window" + std::to_string(repair.window);
  if (repair.prototypes) text += ":prototypes";
  return text;
}

std::optional<RepairChoice> parse_repair(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::optional<unsigned> per_cent = number_in(text.substr(0, colon), 100);
  if (!per_cent) return std::nullopt;
  RepairChoice repair{.share = *per_cent / 100.0};
  for (std::size_t at = colon; at != std::string_view::npos;) {
    const std::size_t next = text.find(':', at + 1);
    if (!add_part(text.substr(at + 1, next == std::string_view::npos ? next : next - at - 1), repair))
      return std::nullopt;
    at = next;
  }
  return repair;
}

void write_repair(Plan& plan, const RepairChoice& choice, std::size_t left_max) {
  using By = RepairChoice::By;
  kernels::Repair& repair = plan.repair;
  if (repair.reused_spans.empty()) return;
  repair.mean = choice.mean;
  repair.exact_layers = choice.exact_layers;
  const std::vector<double> shares = divide_budgets(plan, choice);
  repair.budgets.assign(shares.size(), 0);
  const std::size_t tokens = kernels::repaired_tokens(plan), least = tokens - std::min(tokens, left_max);
  std::vector<bool> always(tokens);
  std::fill(always.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(choice.window, tokens)),
            always.end(), true);
  if (choice.by == By::first) {
    mark_first(plan, shares, 0, always);
    if (static_cast<std::size_t>(std::ranges::count(always, true)) < least)
      mark_first(plan, shares, static_cast<double>(least) / static_cast<double>(tokens), always);
  } else {
    fill_budgets(plan, shares, least, always);
    repair.attention = choice.by == By::deviation ? 0 : 1;
    repair.divergence = choice.by == By::deviation || choice.by == By::importance ? 1 : 0;
    if (choice.by == By::tail) repair.attending = behind_reused(plan);
  }
  for (std::uint32_t t = 0; t < tokens; ++t)
    if (always[t]) repair.always.push_back(t);
}

}  // namespace troupe::router
