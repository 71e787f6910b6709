// Scores the test events of a data set under each plan (a way to arrange and reuse the parts of a
// prompt). Shows how well a ranker ranks under each, with and without repair.
#include "deploy/lab/bench/bench_plans.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string_view>
#include <variant>

#include "deploy/node/prompt_file.h"
#include "kernels/base/check.h"

namespace troupe::deploy {

namespace {

RankEvent make_event(const PromptForm& form, const std::map<std::string, PutItem>& catalog,
                     const EvaluationRow& row) {
  const auto find = [&](const std::string& item) -> const PutItem& {
    const auto at = catalog.find(item);
    if (at == catalog.end())
      throw ImportError("user " + row.user + " has item " + item + "; expected an item of the catalog");
    return at->second;
  };
  std::vector<Token> history = form.user.copy();
  RankEvent event{.truth = row.true_index};
  const std::size_t events =
      form.events_max > 0 ? std::min<std::size_t>(form.events_max, row.history.size()) : row.history.size();
  for (const std::string& item : std::span(row.history).last(events)) {
    const PutItem& of = find(item);
    history.insert(history.end(), form.event.begin(), form.event.end());
    history.insert(history.end(), of.tokens.begin(), of.tokens.end());
    event.events.push_back(static_cast<std::uint32_t>(form.event.size() + of.tokens.size()));
  }
  event.history = std::move(history);
  for (const std::string& item : row.candidates)
    event.items.push_back({item, "", find(item).tokens, find(item).identifier, {}});
  return event;
}

}  // namespace

bool PlanVariant::repairs() const { return repair.share > 0 || repair.history > 0 || repair.window > 0; }

std::string PlanVariant::name() const {
  std::string name(plan->name);
  if (!repairs()) return name;
  name += " +" + std::to_string(std::lround(100 * repair.share)) + " %";
  if (repair.history >= 0) name += ", history " + std::to_string(std::lround(100 * repair.history)) + " %";
  if (repair.window > 0) name += ", window " + std::to_string(repair.window);
  return name;
}

std::string PlanVariant::selection() const {
  if (!repairs()) return "none";
  return oracle ? "oracle" : selection_of(repair);
}

std::string PlanVariant::correction() const { return correction_of(repair); }

std::vector<std::string> plans_of(const PromptForm& form) {
  std::vector<std::string> names;
  for (const router::PlanKind& kind : router::plan_kinds())
    if (form.declares(kind.arrangement)) names.emplace_back(kind.name);
  return names;
}

const router::PlanKind& parse_plan(const std::string& name, const PromptForm& form) {
  const router::PlanKind* const plan = router::find_plan(name);
  if (plan && !plan->of_prototypes && form.can_have(plan->arrangement)) return *plan;
  std::string names;
  for (const router::PlanKind& kind : router::plan_kinds())
    if (form.can_have(kind.arrangement)) names.append(names.empty() ? "" : ", ").append(kind.name);
  throw std::invalid_argument("--plans has \"" + name.substr(0, 40) + "\"; expected some of " + names);
}

PlanVariant parse_variant(const std::string& name, const PromptForm& form) {
  const std::size_t plus = name.find('+');
  PlanVariant variant{&parse_plan(name.substr(0, plus), form), {}};
  if (plus == std::string::npos) return variant;
  const auto fail = [&](const std::string& what, const std::string& expected) {
    throw std::invalid_argument("--plans has \"" + name.substr(0, 80) + "\", whose repair " + what +
                                "; expected " + expected);
  };
  const auto read = router::read_repair(std::string_view(name).substr(plus + 1));
  if (const auto* fault = std::get_if<router::RepairFault>(&read)) fail(fault->what, fault->expected);
  variant.repair = std::get<router::RepairChoice>(read);
  if (!variant.plan->repairs)
    fail("would have no blocks of items", "a repair behind item or an approximate plan");
  if (variant.repair.history >= 0 && !variant.plan->approximate)
    fail("is of histories, which are no blocks in it", "parts for items alone");
  if (variant.repair.prototypes) fail("has \"prototypes\"", "--prototypes FILE instead");
  return variant;
}

Plan plan_of(const PromptForm& form, const RankEvent& event, const PlanVariant& variant) {
  TROUPE_CHECK(variant.repair.share <= 0 || variant.plan->repairs,
               "only blocks that are computed alone are repaired");
  const std::vector<ItemView> items = views(event.items);
  return variant.plan
      ->build({.form = form,
               .history = event.history,
               .events = event.events,
               .items = items,
               .repair = variant.repair})
      .plan;
}

std::vector<float> scores_of(const kernels::Reply& reply) {
  if (reply.readouts.size() == 1) return reply.readouts.front();
  std::vector<float> scores;
  for (const std::vector<float>& rows : reply.readouts)  // an identifier, or yes and no
    scores.push_back(rows.size() == 1 ? rows[0] : rows.at(0) - rows.at(1));
  return scores;
}

std::vector<float> run_plan(kernels::Executor& decoder, const Plan& plan) {
  const kernels::Request request{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
  return scores_of(decoder.run({&request, 1}).at(0));
}

RankEvents read_rank_events(const std::filesystem::path& model, const std::filesystem::path& data,
                            const std::filesystem::path& evaluation, const std::filesystem::path& prompt) {
  const kernels::PlanLimits limits = plan_limits(kernels::read_decoder_config(model));
  const kernels::Vocabulary vocabulary = read_vocabulary_if_any(model, limits);
  RankEvents events{.form = read_prompt_form(model, prompt.empty() ? std::nullopt : std::optional(prompt),
                                             limits, vocabulary)};
  std::map<std::string, PutItem> catalog;
  for (PutItem& item : read_items(data, vocabulary)) catalog[item.item] = std::move(item);
  for (const EvaluationRow& row :
       read_evaluation(evaluation.empty() ? model / "eval.tsv.gz" : evaluation, data)) {
    events.list.push_back(make_event(events.form, catalog, row));
    for (const std::string& name : plans_of(events.form)) {
      const std::string fault =
          validate(plan_of(events.form, events.list.back(), {&parse_plan(name, events.form)}), limits);
      if (!fault.empty()) throw ImportError("user " + row.user + ": " + fault);
    }
  }
  return events;
}

}  // namespace troupe::deploy
