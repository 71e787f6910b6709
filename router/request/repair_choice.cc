// Parses and writes how reused blocks are repaired, and selects a plan's tokens for it. Repair
// computes the chosen tokens of reused blocks exactly (RcLLM).
#include "router/request/repair_choice.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace troupe::router {
namespace {

using By = RepairChoice::By;

constexpr std::string_view selections[] = {"first", "attention", "tail", "deviation", "importance"};
constexpr unsigned window_max = 1'000'000;
// 0 is allowed, too. The text of a smaller weight could be longer than weight_text allows.
constexpr double lambda_min = 1e-6, lambda_max = 100;

std::string selection_names() {
  std::string names;
  for (const std::string_view name : selections) names.append(names.empty() ? "" : ", ").append(name);
  return names;
}

// Parses a whole number up to `most`; nullopt for any other text.
std::optional<unsigned> number_in(std::string_view text, unsigned most) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > most) return std::nullopt;
  return number;
}

// Parses a weight such as "0.5", without sign and exponent. It is 0, or lambda_min to lambda_max.
std::optional<double> weight_in(std::string_view text) {
  double weight = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), weight, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || !(weight >= 0 && weight <= lambda_max) ||
      std::signbit(weight) || (weight > 0 && weight < lambda_min))
    return std::nullopt;
  return weight;
}

std::string weight_text(double weight) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, weight, std::chars_format::fixed);
  return error == std::errc() ? std::string(text, end) : "";
}

using PartFault = std::optional<RepairFault>;

// Reads the parts of a text one by one.
class PartReader {
 public:
  explicit PartReader(RepairChoice& repair) : repair_(repair) {}

  PartFault add(std::string_view part) {
    if (find_selection(part)) return set("a selection", [&] { repair_.by = *find_selection(part); });
    if (part == "mean") return set("mean", [&] { repair_.mean = true; });
    if (part == "layer2") return set("layer2", [&] { repair_.exact_layers = 2; });
    if (part == "prototypes") return set("prototypes", [&] { repair_.prototypes = true; });
    if (part.starts_with("history-")) return add_history_selection(part);
    if (part.starts_with("history")) return add_history(part);
    if (part.starts_with("window")) return add_window(part);
    if (part.starts_with("lambda")) return add_lambda(part);
    return wrong(part, "a selection (" + selection_names() +
                           "), mean, layer2, historyNUMBER, history-SELECTION, lambdaWEIGHT, windowNUMBER or "
                           "prototypes");
  }
  // Returns what is wrong with the parts together.
  PartFault check() const {
    if (repair_.history_by && repair_.history < 0)
      return RepairFault{
          "has history-" + std::string(name_of(*repair_.history_by)) + " without a budget of the history",
          "historyNUMBER, too"};
    if (has("lambda") && repair_.by != By::importance && repair_.history_selection() != By::importance)
      return RepairFault{"has lambda without a selection by importance", "importance or history-importance"};
    const auto of_all = [](By by) { return by == By::attention || by == By::importance; };
    const By items = repair_.by, history = repair_.history_selection();
    if ((items == By::tail && of_all(history)) || (history == By::tail && of_all(items)))
      return RepairFault{
          "chooses one budget by tail and one by " + std::string(name_of(of_all(items) ? items : history)),
          "both by tail or none, as attention is measured once"};
    return std::nullopt;
  }

 private:
  static PartFault wrong(std::string_view part, const std::string& expected) {
    return RepairFault{"has \"" + std::string(part.substr(0, 40)) + "\"", expected};
  }
  bool has(std::string_view what) const { return std::ranges::find(given_, what) != given_.end(); }
  template <class Set>
  PartFault set(std::string_view what, const Set& value) {
    if (has(what)) return RepairFault{"has " + std::string(what) + " twice", "each part once"};
    given_.push_back(what);
    value();
    return std::nullopt;
  }
  PartFault add_history_selection(std::string_view part) {
    const auto by = find_selection(part.substr(std::string_view("history-").size()));
    if (!by) return wrong(part, "history- and one of " + selection_names());
    return set("a selection of the history", [&] { repair_.history_by = *by; });
  }
  PartFault add_history(std::string_view part) {
    const auto per_cent = number_in(part.substr(std::string_view("history").size()), 100);
    if (!per_cent) return wrong(part, "history and a per cent from 0 to 100, such as history20");
    return set("a budget of the history", [&] { repair_.history = *per_cent / 100.0; });
  }
  PartFault add_window(std::string_view part) {
    const auto tokens = number_in(part.substr(std::string_view("window").size()), window_max);
    if (!tokens || *tokens == 0)
      return wrong(part, "window and a number of tokens from 1 to " + std::to_string(window_max));
    return set("a window", [&] { repair_.window = *tokens; });
  }
  PartFault add_lambda(std::string_view part) {
    const auto weight = weight_in(part.substr(std::string_view("lambda").size()));
    if (!weight) return wrong(part, "lambda and 0, or 0.000001 to 100, such as lambda0.5");
    return set("lambda", [&] { repair_.lambda = *weight; });
  }

  RepairChoice& repair_;
  std::vector<std::string_view> given_;
};

std::uint32_t tokens_at(const Plan& plan, const kernels::Repair::ReusedSpan& place) {
  return static_cast<std::uint32_t>(plan.segments[place.segment].tokens.size());
}

// Share and selection of one budget's tokens.
struct Budget {
  double share = 0;
  By by = By::first;
};

// Splits the spans into budgets, one for all or one each for history and items.
std::vector<Budget> divide_budgets(Plan& plan, const RepairChoice& choice) {
  const auto is_item = [&](const kernels::Repair::ReusedSpan& place) {
    return plan.segments[place.segment].kind == SegmentKind::item;
  };
  auto& reused_spans = plan.repair.reused_spans;
  const bool items = std::ranges::any_of(reused_spans, is_item),
             history = !std::ranges::all_of(reused_spans, is_item);
  const Budget of_items{choice.share, choice.by},
      of_history{choice.history_share(), choice.history_selection()};
  if (choice.history < 0 || !items || !history) return {items ? of_items : of_history};
  for (kernels::Repair::ReusedSpan& place : reused_spans) place.budget = is_item(place);
  return {of_history, of_items};
}

// Marks the first tokens of each span of the budgets that choose by it: their share, raised so that at least
// the budget's `least` of its tokens are marked.
void mark_first(const Plan& plan, const std::vector<Budget>& budgets, const std::vector<double>& least,
                std::vector<bool>& always) {
  std::size_t number = 0;
  for (const kernels::Repair::ReusedSpan& place : plan.repair.reused_spans) {
    const std::uint32_t tokens = tokens_at(plan, place);
    const Budget& budget = budgets[place.budget];
    const double again = budget.by != By::first ? 0
                                                : std::max(std::round(budget.share * tokens),
                                                           std::ceil(least[place.budget] * tokens - 1e-9));
    for (std::uint32_t t = 0; t < tokens && t < again; ++t) always[number + t] = true;
    number += tokens;
  }
}

// Tokens of each budget, and those of them that are not marked.
struct BudgetTokens {
  std::vector<std::size_t> all, free;
};
BudgetTokens tokens_of(const Plan& plan, std::size_t budgets, const std::vector<bool>& always) {
  BudgetTokens tokens{std::vector<std::size_t>(budgets), std::vector<std::size_t>(budgets)};
  std::size_t number = 0;
  for (const kernels::Repair::ReusedSpan& place : plan.repair.reused_spans)
    for (std::uint32_t t = 0; t < tokens_at(plan, place); ++t)
      ++tokens.all[place.budget], tokens.free[place.budget] += !always[number++];
  return tokens;
}

std::size_t count_chosen(const Plan& plan, const std::vector<bool>& always) {
  auto chosen = static_cast<std::size_t>(std::ranges::count(always, true));
  for (const std::uint32_t budget : plan.repair.budgets) chosen += budget;
  return chosen;
}

// Sets each budget that chooses by scores to its share beside the marked tokens.
void fill_budgets(Plan& plan, const std::vector<Budget>& budgets, const std::vector<bool>& always) {
  const BudgetTokens tokens = tokens_of(plan, budgets.size(), always);
  for (std::size_t b = 0; b < budgets.size(); ++b) {
    const double share = budgets[b].by == By::first ? 0 : budgets[b].share;
    const auto wanted = static_cast<std::size_t>(share * static_cast<double>(tokens.all[b]) + 0.5);
    plan.repair.budgets[b] = static_cast<std::uint32_t>(std::min(wanted, tokens.free[b]));
  }
}

// Raises budgets until `least` tokens are chosen: all in proportion if none chooses by scores, otherwise one
// after the other.
void raise_budgets(Plan& plan, const std::vector<Budget>& budgets, std::size_t least,
                   std::vector<bool>& always) {
  const auto by_first = [](const Budget& budget) { return budget.by == By::first; };
  if (count_chosen(plan, always) >= least) return;
  if (std::ranges::all_of(budgets, by_first)) {
    const double share = static_cast<double>(least) / static_cast<double>(always.size());
    return mark_first(plan, budgets, std::vector<double>(budgets.size(), share), always);
  }
  for (std::size_t b = 0; b < budgets.size(); ++b) {
    const std::size_t chosen = count_chosen(plan, always);
    if (chosen >= least) return;
    const BudgetTokens tokens = tokens_of(plan, budgets.size(), always);
    if (by_first(budgets[b])) {
      std::vector<double> shares(budgets.size());
      const std::size_t marked = tokens.all[b] - tokens.free[b] + std::min(least - chosen, tokens.free[b]);
      shares[b] = static_cast<double>(marked) / static_cast<double>(std::max<std::size_t>(1, tokens.all[b]));
      mark_first(plan, budgets, shares, always);
    } else {
      plan.repair.budgets[b] +=
          static_cast<std::uint32_t>(std::min(least - chosen, tokens.free[b] - plan.repair.budgets[b]));
    }
  }
}

// Returns the weights of the scores by which a budget is chosen.
kernels::Repair::Weights weights_of(By by, double lambda) {
  return {.attention = by == By::attention || by == By::tail || by == By::importance ? 1.0F : 0.0F,
          .divergence = by == By::deviation    ? 1.0F
                        : by == By::importance ? static_cast<float>(lambda)
                                               : 0.0F};
}

// Sets the weights of scores: those of all budgets, with factors for each where the budgets differ.
void write_weights(Plan& plan, const std::vector<Budget>& budgets, double lambda) {
  kernels::Repair& repair = plan.repair;
  std::vector<kernels::Repair::Weights> weights;
  for (const Budget& budget : budgets) weights.push_back(weights_of(budget.by, lambda));
  for (const kernels::Repair::Weights& each : weights) {
    repair.attention = std::max(repair.attention, each.attention);
    repair.divergence = std::max(repair.divergence, each.divergence);
  }
  if (std::ranges::all_of(weights, [&](const auto& each) { return each == weights.front(); })) return;
  const auto factor = [](float own, float most) { return most > 0 ? own / most : 1; };
  for (const kernels::Repair::Weights& each : weights)
    repair.factors.push_back(
        {factor(each.attention, repair.attention), factor(each.divergence, repair.divergence)});
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

std::string_view name_of(By by) { return selections[static_cast<std::size_t>(by)]; }

std::optional<By> find_selection(std::string_view name) {
  const auto at = std::ranges::find(selections, name);
  if (at == std::end(selections)) return std::nullopt;
  return static_cast<By>(at - std::begin(selections));
}

std::string correction_of(const RepairChoice& repair) {
  std::string name = repair.mean ? "mean" : "";
  if (repair.exact_layers > 1)
    name += (name.empty() ? "layer" : "+layer") + std::to_string(repair.exact_layers);
  return name.empty() ? "none" : name;
}

std::string selection_of(const RepairChoice& repair) {
  const auto words = [&](By by) {
    std::string text(name_of(by));
    return by == By::importance && repair.lambda != 1 ? text + "*" + weight_text(repair.lambda) : text;
  };
  std::string text = words(repair.by);
  if (repair.history_selection() != repair.by) text += ", history " + words(repair.history_selection());
  return text;
}

std::string text_of(const RepairChoice& repair) {
  std::string text = std::to_string(std::lround(100 * repair.share));
  if (repair.by != By::first) text += ':' + std::string(name_of(repair.by));
  if (repair.mean) text += ":mean";
  if (repair.exact_layers > 1) text += ":layer" + std::to_string(repair.exact_layers);
  if (repair.history >= 0) text += ":history" + std::to_string(std::lround(100 * repair.history));
  if (repair.history_by) text += ":history-" + std::string(name_of(*repair.history_by));
  if (repair.lambda != 1) text += ":lambda" + weight_text(repair.lambda);
  if (repair.window > 0) text += ":window" + std::to_string(repair.window);
  if (repair.prototypes) text += ":prototypes";
  return text;
}

std::variant<RepairChoice, RepairFault> read_repair(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view first = text.substr(0, colon);
  const std::optional<unsigned> per_cent = number_in(first, 100);
  if (!per_cent)
    return RepairFault{"begins with \"" + std::string(first.substr(0, 40)) + "\"",
                       "a per cent from 0 to 100"};
  RepairChoice repair{.share = *per_cent / 100.0};
  PartReader reader(repair);
  for (std::size_t at = colon; at != std::string_view::npos;) {
    const std::size_t next = text.find(':', at + 1);
    const std::size_t length = next == std::string_view::npos ? next : next - at - 1;
    if (PartFault fault = reader.add(text.substr(at + 1, length))) return *std::move(fault);
    at = next;
  }
  if (PartFault fault = reader.check()) return *std::move(fault);
  if (repair.history_by == repair.by) repair.history_by.reset();
  return repair;
}

void write_repair(Plan& plan, const RepairChoice& choice, std::size_t left_max) {
  kernels::Repair& repair = plan.repair;
  if (repair.reused_spans.empty()) return;
  repair.mean = choice.mean;
  repair.exact_layers = choice.exact_layers;
  const std::vector<Budget> budgets = divide_budgets(plan, choice);
  repair.budgets.assign(budgets.size(), 0);
  const std::size_t tokens = kernels::repaired_tokens(plan), least = tokens - std::min(tokens, left_max);
  std::vector<bool> always(tokens);
  std::fill(always.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(choice.window, tokens)),
            always.end(), true);
  mark_first(plan, budgets, std::vector<double>(budgets.size()), always);
  fill_budgets(plan, budgets, always);
  raise_budgets(plan, budgets, least, always);
  write_weights(plan, budgets, choice.lambda);
  if (std::ranges::any_of(budgets, [](const Budget& budget) { return budget.by == By::tail; }))
    repair.attending = behind_reused(plan);
  for (std::uint32_t t = 0; t < tokens; ++t)
    if (always[t]) repair.always.push_back(t);
}

}  // namespace troupe::router
