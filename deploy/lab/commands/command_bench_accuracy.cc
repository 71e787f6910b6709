// `troupe-lab bench accuracy`: options, table and JSON. The measurement is in bench_accuracy.h.
#include <iostream>
#include <nlohmann/json.hpp>

#include "deploy/data/text_file.h"
#include "deploy/lab/bench/bench_accuracy.h"
#include "deploy/lab/commands/command_bench.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

struct AccuracyOptions {
  std::string model, data, json;
  std::vector<std::string> formats{"f32/f32", "f32/f16", "f32/bf16", "int8/f32", "int8/f16", "int8/bf16"};
  std::size_t history_items = 20, width = 20, events = 0;
};

struct AccuracyRun {
  NumberFormats formats;
  std::vector<EventScore> scores;
  Accuracy accuracy;
  AccuracyChange change;
};

std::string signed_fixed(double value, int decimals) {
  return (value < 0 ? "" : "+") + fixed(value, decimals);
}

std::string with_error(const Mean& change, int decimals) {
  return signed_fixed(change.value, decimals) + " ± " + fixed(change.standard_error, decimals);
}

void print_runs(std::ostream& out, const std::vector<AccuracyRun>& runs) {
  constexpr auto right = Table::Align::right;
  Table table({{"weights/kv"},
               {"nll", right},
               {"change", right},
               {"moved", right},
               {"recall@5", right},
               {"recall@10", right},
               {"change", right},
               {"gained", right},
               {"lost", right},
               {"ndcg@10", right},
               {"change", right}});
  for (const AccuracyRun& run : runs) {
    const Accuracy& a = run.accuracy;
    const AccuracyChange& c = run.change;
    const bool base = &run == &runs.front();
    const auto unless_base = [&](std::string cell) { return base ? "" : std::move(cell); };
    table.row({run.formats.name(), fixed(a.surprise.value, 4), unless_base(with_error(c.surprise, 6)),
               unless_base(fixed(c.moved.value, 6)), fixed(a.recall_at_5.value, 4),
               fixed(a.recall_at_10.value, 4), unless_base(with_error(c.recall_at_10, 5)),
               unless_base(std::to_string(c.gained)), unless_base(std::to_string(c.lost)),
               fixed(a.ndcg_at_10.value, 4), unless_base(with_error(c.ndcg_at_10, 5))});
  }
  table.print(out);
}

void print_notes(std::ostream& out, const AccuracyOptions& options, const std::vector<AccuracyRun>& runs) {
  const Accuracy& base = runs.front().accuracy;
  out << runs.front().scores.size() << " events, beams " << options.width << " wide, prompts of the newest "
      << options.history_items << R"( items.
nll: negative log-likelihood of the true item, in nats per token.
change: relative to the first line, event by event, with its standard error.
moved: mean absolute change of an event's nll. gained, lost: events that became or ceased to be a hit at 10.
Standard errors of the first line: nll )"
      << fixed(base.surprise.standard_error, 4) << ", recall@10 "
      << fixed(base.recall_at_10.standard_error, 4) << ", ndcg@10 "
      << fixed(base.ndcg_at_10.standard_error, 4) << ".\n";
}

json to_json(const AccuracyRun& run) {
  const Accuracy& a = run.accuracy;
  const AccuracyChange& c = run.change;
  return {{"weights", format_name(run.formats.weights)},
          {"kv", format_name(run.formats.kv)},
          {"nll", to_json(a.surprise)},
          {"recall_at_5", to_json(a.recall_at_5)},
          {"recall_at_10", to_json(a.recall_at_10)},
          {"ndcg_at_10", to_json(a.ndcg_at_10)},
          {"change",
           {{"nll", to_json(c.surprise)},
            {"nll_absolute", to_json(c.moved)},
            {"recall_at_5", to_json(c.recall_at_5)},
            {"recall_at_10", to_json(c.recall_at_10)},
            {"ndcg_at_10", to_json(c.ndcg_at_10)},
            {"gained_at_10", c.gained},
            {"lost_at_10", c.lost}}}};
}

json to_json(const AccuracyOptions& options, const std::vector<AccuracyRun>& runs) {
  json all{{"runs", json::array()},
           {"base", runs.front().formats.name()},
           {"events", runs.front().scores.size()},
           {"width", options.width},
           {"history_items", options.history_items}};
  for (const AccuracyRun& run : runs) all["runs"].push_back(to_json(run));
  return all;
}

int run_bench_accuracy(const AccuracyOptions& options) {
  check_output(options.json);
  std::vector<AccuracyRun> runs;
  for (const std::string& name : options.formats) runs.push_back({parse_formats(name), {}, {}, {}});
  AccuracyData data = read_accuracy_data(options.model, options.data, options.history_items);
  if (options.events > 0 && options.events < data.events.size()) data.events.resize(options.events);
  const kernels::DecoderModel model = kernels::read_decoder(options.model);
  for (AccuracyRun& run : runs) {
    run.scores = score_events(model, run.formats, data, options.width);
    run.accuracy = summarize(run.scores);
    run.change = compare(runs.front().scores, run.scores);
  }
  std::ostream& people = options.json == "-" ? std::cerr : std::cout;
  print_runs(people, runs);
  print_notes(people << "\n", options, runs);
  if (!options.json.empty()) write_output(options.json, to_json(options, runs).dump(2) + "\n");
  return 0;
}

}  // namespace

void add_accuracy(Command bench) {
  auto options = std::make_shared<AccuracyOptions>();
  Command command = bench.add_command(
      "accuracy",
      "Measure how number formats change a generator of semantic IDs: likelihood, recall and NDCG");
  command.add_option("--model", options->model, "Model directory").required();
  command.add_option("--data", options->data, "Folder with catalog and sequences, as for import").required();
  command
      .add_option("--formats", options->formats,
                  "Number formats of weights/keys and values, separated by commas; the first is the baseline")
      .comma_separated()
      .default_shown();
  command.add_option("--events", options->events, "Number of test events to use, from the first; 0: all")
      .default_shown();
  command.add_option("--width", options->width, "Beam width: paths kept at each step")
      .between(1, 512)
      .default_shown();
  command.add_option("--history", options->history_items, "Number of newest history items in the prompt")
      .between(0, 10000)
      .default_shown();
  add_runs_option(command, options->json);
  command.runs([options] { return run_bench_accuracy(*options); });
}

}  // namespace troupe::deploy
