// `troupe-lab bench plans`: options, table and JSON. The measurement is in bench_plans.h.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "deploy/data/text_file.h"
#include "deploy/lab/bench/bench_accuracy.h"
#include "deploy/lab/bench/bench_plans.h"
#include "deploy/lab/bench/bench_prototypes.h"
#include "deploy/lab/commands/command_bench.h"
#include "deploy/models/model_prototypes.h"
#include "deploy/reports/table.h"
#include "kernels/base/thread_clock.h"
#include "sim/base/quantile.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

struct PlanRunOptions {
  std::string model, data, prompt, evaluation, json, prototypes;
  std::vector<std::string> plans;
  std::vector<std::string> selections{"first", "importance", "deviation", "tail"};
  std::vector<std::string> corrections{"none", "mean"};
  std::vector<double> repairs{25, 50, 75, 100};  // percent
  std::size_t events = 0;
  bool prefix = false;
};

struct VariantRun {
  PlanVariant variant;
  std::vector<EventScore> scores;
  std::vector<double> overlap;  // with the plain prompt's top items
  std::vector<double> seconds;  // of each request: to make its plan, to check it and to run it
  double operations = 0;
};

// Returns the time that a fraction `share` of the others is below.
double quantile_ms(std::vector<double> seconds, double share) {
  return 1e3 * sim::quantile_in_place(seconds, share);
}

double mean_ms(const std::vector<double>& seconds) { return 1e3 * mean_of(seconds).value; }

constexpr std::size_t everywhere = SIZE_MAX;

double reciprocal(const EventScore& score, std::size_t k) {
  return recall(score, k) > 0 ? 1.0 / static_cast<double>(score.rank) : 0;
}

Mean mean_over(const std::vector<EventScore>& scores, double (*value)(const EventScore&, std::size_t),
               std::size_t k) {
  std::vector<double> samples;
  for (const EventScore& score : scores) samples.push_back(value(score, k));
  return mean_of(samples);
}

// Columns of BAT's Table 3. JSON has the columns of RcLLM's Table III, too; its HR is the recall of
// the one true item.
struct Measure {
  const char* name;
  double (*value)(const EventScore&, std::size_t);
  std::size_t k;
};
constexpr Measure measures[] = {{"recall@10", recall, 10}, {"mrr@10", reciprocal, 10}, {"ndcg@10", ndcg, 10},
                                {"recall@5", recall, 5},   {"mrr@5", reciprocal, 5},   {"ndcg@5", ndcg, 5}};
constexpr Measure more_measures[] = {
    {"hr@1", recall, 1}, {"hr@3", recall, 3}, {"mrr", reciprocal, everywhere}, {"ndcg@20", ndcg, 20}};

[[noreturn]] void unknown(const char* option, const std::string& name, const char* expected) {
  throw std::invalid_argument(std::string(option) + " has \"" + name.substr(0, 40) + "\"; expected some of " +
                              expected);
}

// Parses a correction such as "mean+layer2".
router::RepairChoice correction_named(const std::string& name) {
  if (name == "none") return {};
  if (name == "mean") return {.mean = true};
  if (name == "layer2") return {.exact_layers = 2};
  if (name == "mean+layer2") return {.mean = true, .exact_layers = 2};
  unknown("--correction", name, "none, mean, layer2, mean+layer2");
}

PlanVariant variant_named(const router::PlanKind& plan, const std::string& selection,
                          const std::string& correction, double share) {
  PlanVariant variant{&plan, correction_named(correction), selection == "oracle"};
  variant.repair.share = share;
  const auto by = router::find_selection(variant.oracle ? "attention" : selection);
  if (!by) unknown("--selection", selection, "first, attention, tail, deviation, importance, oracle");
  variant.repair.by = *by;
  return variant;
}

std::vector<VariantRun> variants_of(const PlanRunOptions& options, const PromptForm& form) {
  std::vector<VariantRun> runs;
  for (const std::string& name : options.plans.empty() ? plans_of(form) : options.plans) {
    if (name.find('+') != std::string::npos) {
      runs.push_back({parse_variant(name, form)});
      continue;
    }
    const router::PlanKind& plan = parse_plan(name, form);
    if (options.plans.empty() && name == "all_blocks" && !form.scores_each()) continue;
    runs.push_back({{&plan, {}}});
    if (!plan.repairs) continue;
    for (const std::string& selection : options.selections)
      for (const std::string& correction : options.corrections) {
        if (!plan.approximate && selection == "oracle") continue;  // the oracle is the plain prompt's
        for (const double per_cent : options.repairs)
          runs.push_back({variant_named(plan, selection, correction, per_cent / 100)});
      }
  }
  return runs;
}

// Ratio of sums over the same requests; the standard error is by the delta method.
Mean ratio_of(const std::vector<EventScore>& scores, const std::vector<EventScore>& base) {
  std::vector<double> off;
  const double over = mean_over(base, ndcg, 10).value, ratio = mean_over(scores, ndcg, 10).value / over;
  for (std::size_t i = 0; i < scores.size(); ++i)
    off.push_back(ndcg(scores[i], 10) - ratio * ndcg(base[i], 10));
  return {ratio, mean_of(off).standard_error / over};
}

// Returns the plain prompt's run, computed in full, the reference for plans with blocks; the first
// run if there is none.
const VariantRun& plain_of(const std::vector<VariantRun>& runs) {
  for (const VariantRun& run : runs)
    if (run.variant.plan->name == "causal") return run;
  return runs.front();
}

std::string plus_minus(const Mean& mean) {
  return fixed(mean.value, 3) + " ± " + fixed(mean.standard_error, 3);
}

void print_runs(std::ostream& out, const std::vector<VariantRun>& runs) {
  constexpr auto right = Table::Align::right;
  std::vector<Table::Column> columns{{"plan"}, {"selection"}, {"correction"}};
  for (const Measure& measure : measures) columns.push_back({measure.name, right});
  for (const char* name : {"ndcg@10 to full", "overlap@10", "operations", "CPU ms", "CPU to full", "nll"})
    columns.push_back({name, right});
  Table table(std::move(columns));
  const VariantRun& plain = plain_of(runs);
  for (const VariantRun& run : runs) {
    std::vector<std::string> cells{run.variant.name(), run.variant.selection(), run.variant.correction()};
    for (const Measure& measure : measures)
      cells.push_back(fixed(mean_over(run.scores, measure.value, measure.k).value, 4));
    cells.push_back(plus_minus(ratio_of(run.scores, plain.scores)));
    cells.push_back(plus_minus(mean_of(run.overlap)));
    cells.push_back(fixed(run.operations / plain.operations, 3));
    cells.push_back(fixed(mean_ms(run.seconds), 2));
    cells.push_back(fixed(mean_ms(run.seconds) / mean_ms(plain.seconds), 3));
    cells.push_back(fixed(summarize(run.scores).surprise.value, 4));
    table.row(std::move(cells));
  }
  table.print(out);
  out << "\n"
      << plain.scores.size()
      << " requests. +r %: r % of the tokens of reused blocks are recomputed with attention to all tokens "
         "before them.\n"
      << "ndcg@10 to full, overlap@10, operations and CPU to full are relative to " << plain.variant.name()
      << " on the same requests; blocks were cached before. CPU is the time to make a plan, to check it and "
         "to run it.\n"
      << "Standard errors of " << plain.variant.name() << ": recall@10 "
      << fixed(mean_over(plain.scores, recall, 10).standard_error, 4) << ", ndcg@10 "
      << fixed(mean_over(plain.scores, ndcg, 10).standard_error, 4) << ".\n";
}

json to_json(const std::vector<VariantRun>& runs) {
  const VariantRun& plain = plain_of(runs);
  json all{{"requests", runs.front().scores.size()}, {"full", plain.variant.name()}, {"runs", json::array()}};
  for (const VariantRun& run : runs) {
    json one{{"plan", run.variant.name()},
             {"repair", run.variant.repair.share},
             {"selection", run.variant.selection()},
             {"correction", run.variant.correction()}};
    for (const Measure& measure : measures)
      one[measure.name] = to_json(mean_over(run.scores, measure.value, measure.k));
    for (const Measure& measure : more_measures)
      one[measure.name] = to_json(mean_over(run.scores, measure.value, measure.k));
    one["ndcg@10 to full"] = to_json(ratio_of(run.scores, plain.scores));
    one["overlap@10"] = to_json(mean_of(run.overlap));
    one["operations to full"] = run.operations / plain.operations;
    one["cpu_ms"] = mean_ms(run.seconds);
    one["cpu to full"] = mean_ms(run.seconds) / mean_ms(plain.seconds);
    one["cpu_ms p50"] = quantile_ms(run.seconds, 0.5);
    one["cpu_ms p99"] = quantile_ms(run.seconds, 0.99);
    std::vector<double> times;  // plain prompt's time / this plan's, by request
    for (std::size_t i = 0; i < run.seconds.size(); ++i) times.push_back(plain.seconds[i] / run.seconds[i]);
    one["full to this, paired"] = to_json(mean_of(times));
    one["nll"] = summarize(run.scores).surprise.value;
    all["runs"].push_back(std::move(one));
  }
  return all;
}

// Runs one request under every plan in a row, so that all plans see the same state of the machine.
void run_event(BlockBench& bench, const RankEvents& events, const RankEvent& event,
               std::vector<VariantRun>& runs) {
  static const router::PlanKind& causal = router::exact_plan(Arrangement::causal);
  const Plan plain = plan_of(events.form, event, {&causal, {}});
  const std::vector<float> full = bench.run(plain).scores;
  for (VariantRun& run : runs) {
    const double begin = kernels::thread_cpu_seconds();
    Plan plan = plan_of(events.form, event, run.variant);
    const double planned = kernels::thread_cpu_seconds() - begin;
    if (run.variant.oracle && !plan.repair.reused_spans.empty()) plan = bench.with_oracle(plan, plain);
    const BlockBench::Run done = bench.run(plan);
    run.scores.push_back(judge_ranking(done.scores, event.truth));
    run.overlap.push_back(overlap_at_10(done.scores, full));
    run.seconds.push_back(planned + done.seconds);
    run.operations += done.operations;
  }
}

void print_coverage(std::ostream& out, const kernels::Prototypes& prototypes, const Coverage& coverage) {
  const auto share = [&](std::uint64_t count) { return percent(coverage.share(count)); };
  out << "Histories of all_blocks: " << prototypes.size() << " prototypes stand for "
      << share(coverage.covered()) << " of their tokens, with cosine " << fixed(coverage.cosine, 4)
      << " in the mean: " << share(coverage.by_table) << " by the table of " << prototypes.table().runs.size()
      << " runs, " << share(coverage.by_hash) << " by hashing, for which " << share(coverage.hashed)
      << " of the tokens are hashed.\n";
}

json to_json(const kernels::Prototypes& prototypes, const Coverage& coverage) {
  return {{"prototypes", prototypes.size()},
          {"runs", prototypes.table().runs.size()},
          {"coverage", coverage.share(coverage.covered())},
          {"by_table", coverage.share(coverage.by_table)},
          {"by_hash", coverage.share(coverage.by_hash)},
          {"hashed", coverage.share(coverage.hashed)},
          {"cosine", coverage.cosine}};
}

int run_bench_plans(const PlanRunOptions& options) {
  check_output(options.json);
  RankEvents events = read_rank_events(options.model, options.data, options.evaluation, options.prompt);
  std::vector<VariantRun> runs = variants_of(options, events.form);
  if (options.events > 0 && options.events < events.list.size()) events.list.resize(options.events);
  const kernels::DecoderModel model = kernels::read_decoder(options.model);
  auto decoder = kernels::make_cpu_decoder(model, kernels::DecoderOptions{});
  std::shared_ptr<const kernels::Prototypes> prototypes;
  Coverage coverage;
  if (!options.prototypes.empty()) {
    prototypes = std::make_shared<kernels::Prototypes>(options.prototypes, model.config, model.version);
    coverage = coverage_of(*prototypes, events);
    events.form.prototype_set = prototype_set_of(prototypes, model.version);
    const std::uint32_t page_tokens = decoder->layout().page_tokens;
    decoder = with_prototypes(std::move(decoder),
                              kv_layout(model.config, page_tokens, kernels::KvFormat::f32), prototypes);
    for (VariantRun& run : runs) run.variant.repair.prototypes = run.variant.plan->name == "all_blocks";
  }
  BlockBench bench(*decoder, model.config, options.prefix);
  Progress progress("requests", events.list.size());
  for (const RankEvent& event : events.list) {
    run_event(bench, events, event, runs);
    progress.at(runs.front().scores.size());
  }
  std::ostream& out = options.json == "-" ? std::cerr : std::cout;
  print_runs(out, runs);
  json all = to_json(runs);
  if (prototypes) {
    print_coverage(out, *prototypes, coverage);
    all["prototypes"] = to_json(*prototypes, coverage);
  }
  if (!options.json.empty()) write_output(options.json, all.dump(2) + "\n");
  return 0;
}

}  // namespace

void add_plans(Command bench) {
  auto options = std::make_shared<PlanRunOptions>();
  Command command = bench.add_command(
      "plans",
      "Measure ranking quality under each plan of the same prompts, including plans with repaired blocks");
  command.add_option("--model", options->model, "Model directory").required();
  command.add_option("--data", options->data, "Catalog folder, as for import").required();
  command.add_option("--prompt", options->prompt, "Prompt form; default: prompt.json of the model directory");
  command.add_option("--eval", options->evaluation,
                     "File of requests; default: eval.tsv.gz of the model directory");
  command
      .add_option("--plans", options->plans,
                  "Plans to run, some of " + router::plan_names() +
                      ", or one of them with a repair as in a policy's name "
                      "(blocks+30:attention:history20:history-importance:lambda0.5); default: those of the "
                      "arrangements that the prompt form declares")
      .comma_separated();
  command
      .add_option("--selection", options->selections,
                  "How to select the repaired tokens of plans with blocks, separated by commas: first, "
                  "attention, tail, deviation, importance, oracle")
      .comma_separated()
      .default_shown();
  command
      .add_option("--correction", options->corrections,
                  "How to correct the tokens that are not repaired, separated by commas: none, mean, layer2, "
                  "mean+layer2")
      .comma_separated()
      .default_shown();
  command
      .add_option("--repair", options->repairs,
                  "Percent of tokens to repair in plans with blocks; several separated by commas")
      .comma_separated()
      .between(1, 100)
      .default_shown();
  command.add_option("--prototypes", options->prototypes,
                     "File of prototypes (troupe prototypes) for the histories of all_blocks");
  command.add_flag("--prefix", options->prefix, "Cache the tokens before the history under every plan");
  command.add_option("--events", options->events, "Number of requests to use, from the first; 0: all")
      .default_shown();
  add_runs_option(command, options->json);
  command.runs([options] { return run_bench_plans(*options); });
}

}  // namespace troupe::deploy
