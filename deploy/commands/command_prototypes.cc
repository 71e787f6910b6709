// `troupe prototypes`: makes prototypes, which stand for tokens of histories
// (kernels/decoder/prototypes.h), from a data folder.
#include <algorithm>
#include <iostream>
#include <memory>

#include "deploy/commands/commands.h"
#include "deploy/node/prototype_run.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

struct PrototypesOptions {
  std::string model, prompt, data, out;
  PrototypeRun run;
};

int run_prototypes(const PrototypesOptions& options) {
  PrototypeRun run = options.run;
  run.model = options.model, run.prompt = options.prompt, run.data = options.data, run.out = options.out;
  const PrototypeReport report = make_prototypes(run);
  const auto share = [&](std::uint64_t of) {
    return percent(static_cast<double>(of) /
                   static_cast<double>(std::max<std::uint64_t>(1, report.made.tokens)));
  };
  std::cout << options.out << ": " << report.made.prototypes << " prototypes of " << report.made.places
            << " tokens at their positions\n"
            << report.histories << " histories of " << report.made.tokens
            << " tokens: " << share(report.made.covered) << " have a prototype, with cosine "
            << fixed(report.made.cosine, 4) << " in the mean; " << share(report.made.never)
            << " are always computed.\n"
            << "Keys and values are means over " << report.computed << " histories.\n"
            << "The look-up table has " << report.runs << " runs of positions.\n";
  return 0;
}

}  // namespace

void add_prototypes(Command app) {
  auto options = std::make_shared<PrototypesOptions>();
  kernels::PrototypeOptions& made = options->run.options;
  Command command =
      app.add_command("prototypes", "Make prototypes, which stand for tokens of users' histories");
  command.add_option("--model", options->model, "Model directory").required();
  command.add_option("--prompt", options->prompt, "Prompt form; default: prompt.json of the model directory");
  command.add_option("--data", options->data, "Folder with catalog and users, as for import").required();
  command.add_option("--out", options->out, "File to write").required();
  command
      .add_option("--histories", options->run.histories_max,
                  "Number of histories to average keys and values over; 0: all")
      .default_shown();
  command
      .add_option("--never", options->run.never,
                  "Words or tokens that are always computed, besides those of the prompt form and of item "
                  "identifiers; separated by commas")
      .comma_separated();
  command.add_option("--most", made.prototypes_max, "Maximum number of prototypes")
      .between(1, 1 << 24)
      .default_shown();
  command
      .add_option("--runs", made.runs_max,
                  "Maximum number of runs in the look-up table (a token at consecutive positions that have "
                  "one prototype), the most frequent tokens first; other tokens are hashed")
      .between(0, 1 << 28)
      .default_shown();
  command.add_option("--cosine", made.cosine_min, "Minimum cosine between a token and its prototype, -1 to 1")
      .between(-1.0, 1.0)
      .default_shown();
  command.add_option("--place", made.position_weight, "Weight of the position in a token's direction, 0 to 1")
      .between(0.0, 1.0)
      .default_shown();
  command.add_option("--tables", made.tables, "Number of hash tables").between(1, 64).default_shown();
  command.add_option("--planes", made.planes, "Number of hyperplanes per hash table")
      .between(1, 24)
      .default_shown();
  command.add_option("--seed", made.seed, "Seed of the hyperplanes").default_shown();
  command.runs([options] { return run_prototypes(*options); });
}

}  // namespace troupe::deploy
