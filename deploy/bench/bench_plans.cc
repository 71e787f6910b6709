#include "deploy/bench/bench_plans.h"

#include <cmath>
#include <map>
#include <stdexcept>

#include "deploy/box/prompt_file.h"
#include "kernels/base/check.h"

namespace troupe::deploy {

namespace {

RankEvent make_event(const router::PromptForm& form, const std::map<std::string, PutItem>& catalog,
                     const EvaluationRow& row) {
  const auto find = [&](const std::string& item) -> const PutItem& {
    const auto at = catalog.find(item);
    if (at == catalog.end())
      throw ImportError("user " + row.user + " has item " + item + "; expected an item of the catalog");
    return at->second;
  };
  std::vector<Token> history = form.user.copy();
  for (const std::string& item : row.history)
    history.insert(history.end(), find(item).tokens.begin(), find(item).tokens.end());
  RankEvent event{.history = std::move(history), .truth = row.true_index};
  for (const std::string& item : row.candidates)
    event.items.push_back({item, "", find(item).tokens, find(item).identifier, {}});
  return event;
}

}  // namespace

std::string PlanVariant::name() const {
  const std::string plain(plan->name);
  return repair <= 0 ? plain : plain + " +" + std::to_string(std::lround(100 * repair)) + " %";
}

const router::PlanKind& parse_plan(const std::string& name) {
  if (const router::PlanKind* plan = router::find_plan(name)) return *plan;
  throw std::invalid_argument("--plans has \"" + name.substr(0, 40) + "\"; expected some of " +
                              router::plan_names());
}

Plan plan_of(const router::PromptForm& form, const RankEvent& event, const PlanVariant& variant) {
  TROUPE_CHECK(variant.repair <= 0 || variant.plan->repairs,
               "only blocks that are computed alone are repaired");
  const std::vector<ItemView> items = views(event.items);
  return variant.plan
      ->build({.form = form, .history = event.history, .items = items, .repair = variant.repair})
      .plan;
}

std::vector<float> run_plan(kernels::Executor& decoder, const Plan& plan) {
  const kernels::Request request{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
  return decoder.run({&request, 1}).at(0).readouts.at(0);
}

EventScore judge_ranking(const std::vector<float>& logits, std::size_t truth) {
  TROUPE_CHECK(truth < logits.size(), "the true item is one of the candidates");
  const float own = logits[truth];
  double sum = 0;
  std::size_t place = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - own);
    place += !(logit < own);
  }
  return {std::log(sum), place};
}

RankEvents read_rank_events(const std::filesystem::path& model, const std::filesystem::path& data,
                            const std::filesystem::path& evaluation) {
  const kernels::PlanLimits limits = plan_limits(kernels::read_decoder_config(model));
  const kernels::Vocabulary vocabulary = read_vocabulary_if_any(model, limits);
  RankEvents events{.form = read_prompt_form(model, std::nullopt, limits, vocabulary)};
  std::map<std::string, PutItem> catalog;
  for (PutItem& item : read_items(data, vocabulary)) catalog[item.item] = std::move(item);
  for (const EvaluationRow& row : read_evaluation(evaluation.empty() ? model / "eval.tsv.gz" : evaluation)) {
    events.list.push_back(make_event(events.form, catalog, row));
    for (const router::PlanKind& kind : router::plan_kinds()) {
      const std::string fault = find_fault(plan_of(events.form, events.list.back(), {&kind}), limits);
      if (!fault.empty()) throw ImportError("user " + row.user + ": " + fault);
    }
  }
  return events;
}

}  // namespace troupe::deploy
