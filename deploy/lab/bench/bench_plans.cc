// Scores the test events of a data set under each plan (a way to arrange and reuse the parts of a
// prompt). Shows how well a ranker ranks under each, with and without repair.
#include "deploy/lab/bench/bench_plans.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>

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

std::string PlanVariant::name() const {
  const std::string plain(plan->name);
  return repair.share <= 0 ? plain : plain + " +" + std::to_string(std::lround(100 * repair.share)) + " %";
}

std::string PlanVariant::selection() const {
  if (repair.share <= 0) return "none";
  return oracle ? "oracle" : std::string(name_of(repair.by));
}

std::string PlanVariant::correction() const { return correction_of(repair); }

std::vector<std::string> plans_of(const PromptForm& form) {
  std::vector<std::string> names;
  for (const router::PlanKind& kind : router::plan_kinds())
    if (kind.one_after_other || !form.scores_each()) names.emplace_back(kind.name);
  return names;
}

const router::PlanKind& parse_plan(const std::string& name) {
  if (const router::PlanKind* plan = router::find_plan(name)) return *plan;
  throw std::invalid_argument("--plans has \"" + name.substr(0, 40) + "\"; expected some of " +
                              router::plan_names());
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
  for (const std::vector<float>& rows : reply.readouts) scores.push_back(rows.at(0) - rows.at(1));
  return scores;
}

std::vector<float> run_plan(kernels::Executor& decoder, const Plan& plan) {
  const kernels::Request request{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
  return scores_of(decoder.run({&request, 1}).at(0));
}

double overlap_at_10(const std::vector<float>& one, const std::vector<float>& other) {
  const std::size_t count = std::min<std::size_t>(10, one.size() / 2);
  const auto best = [&](const std::vector<float>& scores) {
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    order.resize(count);
    return order;
  };
  const std::vector<std::size_t> a = best(one), b = best(other);
  double common = 0;
  for (const std::size_t item : a) common += std::ranges::find(b, item) != b.end();
  return count == 0 ? 1 : common / static_cast<double>(count);
}

EventScore judge_ranking(const std::vector<float>& logits, std::size_t truth) {
  TROUPE_CHECK(truth < logits.size(), "the true item is one of the candidates");
  const float own = logits[truth];
  double sum = 0;
  std::size_t rank = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - own);
    rank += !(logit < own);
  }
  return {std::log(sum), rank};
}

RankEvents read_rank_events(const std::filesystem::path& model, const std::filesystem::path& data,
                            const std::filesystem::path& evaluation) {
  const kernels::PlanLimits limits = plan_limits(kernels::read_decoder_config(model));
  const kernels::Vocabulary vocabulary = read_vocabulary_if_any(model, limits);
  RankEvents events{.form = read_prompt_form(model, std::nullopt, limits, vocabulary)};
  std::map<std::string, PutItem> catalog;
  for (PutItem& item : read_items(data, vocabulary)) catalog[item.item] = std::move(item);
  for (const EvaluationRow& row :
       read_evaluation(evaluation.empty() ? model / "eval.tsv.gz" : evaluation, data)) {
    events.list.push_back(make_event(events.form, catalog, row));
    for (const std::string& name : plans_of(events.form)) {
      const std::string fault =
          validate(plan_of(events.form, events.list.back(), {&parse_plan(name)}), limits);
      if (!fault.empty()) throw ImportError("user " + row.user + ": " + fault);
    }
  }
  return events;
}

}  // namespace troupe::deploy
