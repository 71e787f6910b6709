// `troupe verify`: compares a model's scores under each arrangement and each reuse with the plain
// computation and with golden scores, and declares in the prompt form what was shown.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "deploy/commands/commands.h"
#include "deploy/data/text_file.h"
#include "deploy/verify/verification.h"

namespace troupe::deploy {

namespace {

struct VerifyCommand {
  std::string model, data, prompt, evaluation, golden, json;
  std::vector<std::string> arrangements, settings, environment;
  VerifyOptions run;
};

int run_verify(const VerifyCommand& command) {
  VerifyOptions options = command.run;
  apply_environment(options.config, command.environment);
  options.config.model.directory = command.model;
  apply_settings(options.config, command.settings);
  options.data = command.data;
  options.prompt = command.prompt;
  options.evaluation = command.evaluation;
  options.golden = command.golden;
  for (const std::string& word : command.arrangements) {
    Arrangement arrangement = Arrangement::unnamed;
    const auto unknown = read_word(word, arrangement);
    if (unknown || arrangement == Arrangement::unnamed)
      throw std::invalid_argument("--arrangements has \"" + word.substr(0, 40) +
                                  "\"; expected some of causal, user_first, item_first, candidates_apart");
    if (std::ranges::find(options.arrangements, arrangement) != options.arrangements.end())
      throw std::invalid_argument("--arrangements has \"" + word + "\" twice; expected each once");
    options.arrangements.push_back(arrangement);
  }
  check_output(command.json);
  const VerifyReport report = verify(options);
  print(command.json == "-" ? std::cerr : std::cout, report);
  if (!command.json.empty()) write_output(command.json, to_json(report).dump(2) + "\n");
  return report.is_well() ? 0 : 1;
}

}  // namespace

void add_verify(Command app) {
  auto options = std::make_shared<VerifyCommand>();
  Command command = app.add_command(
      "verify",
      "Compare a model's scores with the plain computation and with your own, and declare what holds");
  options->environment = command.environment();
  command.add_option("--model", options->model, "Model directory").required();
  command.add_option("--data", options->data, "Folder with catalog and users, as for import").required();
  command.add_option("--golden", options->golden,
                     "File of scores that another program computed; one JSON object a line");
  command.add_option("--prompt", options->prompt, "Prompt form; default: prompt.json of the model directory");
  command.add_option("--eval", options->evaluation,
                     "File of requests with held-out events; default: eval.tsv.gz of the model directory, or "
                     "requests.jsonl or eval.tsv of the data folder");
  command
      .add_option(
          "--arrangements", options->arrangements,
          "Arrangements to take as declared, separated by commas, the first one first; default: those "
          "of the prompt form")
      .comma_separated();
  command.add_option("--requests", options->run.requests, "Number of requests to use, from the first; 0: all")
      .default_shown();
  command
      .add_option("--tolerance", options->run.tolerance,
                  "Share of NDCG@10 that an interchangeable arrangement may lose")
      .between(0.0, 1.0)
      .default_shown();
  command.add_flag(
      "--write", options->run.write,
      "Write arrangements and interchangeable into the prompt form; makes one where there is none");
  command.add_flag("--skip-unknown", options->run.skip_unknown,
                   "Leave out items of histories and candidates that the catalog lacks, and count them");
  command.add_option("--set", options->settings,
                     "Setting as name=value, such as pool.kv_format=bf16; may be repeated");
  command.add_option(
      "--json", options->json,
      "Write all numbers to this file, or - for standard output (and the table to standard error)");
  command.runs([options] { return run_verify(*options); });
}

}  // namespace troupe::deploy
