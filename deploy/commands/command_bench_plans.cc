// `troupe bench plans`: options, table and JSON; what is measured is in bench_plans.h.
#include <iostream>
#include <nlohmann/json.hpp>

#include "deploy/bench/bench_plans.h"
#include "deploy/commands/command_bench.h"
#include "deploy/data/text_file.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

std::vector<std::string> all_plans() {
  std::vector<std::string> names;
  for (const router::PlanKind& kind : router::plan_kinds()) names.emplace_back(kind.name);
  return names;
}

struct PlanRunOptions {
  std::string model, data, evaluation, json;
  std::vector<std::string> plans = all_plans();
  std::vector<double> repairs{25, 50, 75, 100};  // per cent
  std::size_t events = 0;
};

struct VariantRun {
  PlanVariant variant;
  std::vector<EventScore> scores;
};

double reciprocal(const EventScore& score, std::size_t k) {
  return recall(score, k) > 0 ? 1.0 / static_cast<double>(score.place) : 0;
}

Mean mean_over(const std::vector<EventScore>& scores, double (*value)(const EventScore&, std::size_t),
               std::size_t k) {
  std::vector<double> samples;
  for (const EventScore& score : scores) samples.push_back(value(score, k));
  return mean_of(samples);
}

// The columns of Table 3.
struct Measure {
  const char* name;
  double (*value)(const EventScore&, std::size_t);
  std::size_t k;
};
constexpr Measure measures[] = {{"recall@10", recall, 10}, {"mrr@10", reciprocal, 10}, {"ndcg@10", ndcg, 10},
                                {"recall@5", recall, 5},   {"mrr@5", reciprocal, 5},   {"ndcg@5", ndcg, 5}};

std::string with_error(const Mean& mean) {
  return (mean.value < 0 ? "" : "+") + fixed(mean.value, 4) + " ± " + fixed(mean.standard_error, 4);
}

std::vector<VariantRun> variants_of(const PlanRunOptions& options) {
  std::vector<VariantRun> runs;
  for (const std::string& name : options.plans) {
    const router::PlanKind& plan = parse_plan(name);
    runs.push_back({{&plan, 0}, {}});
    if (!plan.repairs) continue;
    for (const double per_cent : options.repairs) runs.push_back({{&plan, per_cent / 100}, {}});
  }
  return runs;
}

void print_runs(std::ostream& out, const std::vector<VariantRun>& runs) {
  constexpr auto right = Table::Align::right;
  std::vector<Table::Column> columns{{"plan"}};
  for (const Measure& measure : measures) columns.push_back({measure.name, right});
  columns.push_back({"ndcg@10 against the first", right});
  columns.push_back({"nll", right});
  Table table(std::move(columns));
  for (const VariantRun& run : runs) {
    std::vector<std::string> cells{run.variant.name()};
    for (const Measure& measure : measures)
      cells.push_back(fixed(mean_over(run.scores, measure.value, measure.k).value, 4));
    cells.push_back(&run == &runs.front() ? ""
                                          : with_error(compare(runs.front().scores, run.scores).ndcg_at_10));
    cells.push_back(fixed(summarize(run.scores).surprise.value, 4));
    table.row(std::move(cells));
  }
  table.print(out);
  const std::vector<EventScore>& base = runs.front().scores;
  out << "\n"
      << base.size()
      << " requests. +r %: the first r % of each item's tokens recomputed with all before them in sight.\n"
         "Standard errors of the first line: recall@10 "
      << fixed(mean_over(base, recall, 10).standard_error, 4) << ", ndcg@10 "
      << fixed(mean_over(base, ndcg, 10).standard_error, 4)
      << ". The change of ndcg@10 is of the same requests.\n";
}

json to_json(const std::vector<VariantRun>& runs) {
  json all{{"requests", runs.front().scores.size()}, {"runs", json::array()}};
  for (const VariantRun& run : runs) {
    json one{{"plan", run.variant.name()}, {"repair", run.variant.repair}};
    for (const Measure& measure : measures) {
      const Mean mean = mean_over(run.scores, measure.value, measure.k);
      one[measure.name] = {{"mean", mean.value}, {"standard_error", mean.standard_error}};
    }
    one["nll"] = summarize(run.scores).surprise.value;
    all["runs"].push_back(std::move(one));
  }
  return all;
}

int run_bench_plans(const PlanRunOptions& options) {
  check_output(options.json);
  std::vector<VariantRun> runs = variants_of(options);
  RankEvents events = read_rank_events(options.model, options.data, options.evaluation);
  if (options.events > 0 && options.events < events.list.size()) events.list.resize(options.events);
  const auto decoder =
      kernels::make_cpu_decoder(kernels::read_decoder(options.model), kernels::DecoderOptions{});
  for (VariantRun& run : runs) {
    Progress progress(run.variant.name(), events.list.size());
    for (const RankEvent& event : events.list) {
      const Plan plan = plan_of(events.form, event, run.variant);
      run.scores.push_back(judge_ranking(run_plan(*decoder, plan), event.truth));
      progress.at(run.scores.size());
    }
  }
  print_runs(options.json == "-" ? std::cerr : std::cout, runs);
  if (!options.json.empty()) write_output(options.json, to_json(runs).dump(2) + "\n");
  return 0;
}

}  // namespace

void add_plans(Command bench) {
  auto options = std::make_shared<PlanRunOptions>();
  Command command = bench.add_command(
      "plans", "How well a ranker ranks under each plan of the same prompts, with repaired blocks too");
  command.add_option("--model", options->model, "Model directory").required();
  command.add_option("--data", options->data, "Catalog, as for import").required();
  command.add_option("--eval", options->evaluation, "Requests; default: the model's eval.tsv.gz");
  command.add_option("--plans", options->plans, "Some of " + router::plan_names() + "; the first is the base")
      .comma_separated()
      .default_shown();
  command.add_option("--repair", options->repairs, "Per cent of each item's tokens, where items are computed alone")
      .comma_separated()
      .between(1, 100)
      .default_shown();
  command.add_option("--events", options->events, "Only the first so many requests; 0: all").default_shown();
  command.add_option("--json", options->json,
                     "Write runs[] to this file, or - for standard output (and the table to standard error)");
  command.runs([options] { return run_bench_plans(*options); });
}

}  // namespace troupe::deploy
