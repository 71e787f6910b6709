// `troupe-lab train`: trains the split policies in the simulator. The result depends on the options
// alone, so that the file in the repository can be reproduced.
#include <iostream>
#include <memory>

#include "deploy/data/text_file.h"
#include "deploy/lab/commands/lab_commands.h"
#include "deploy/reports/table.h"
#include "placement/split/trained_policies.h"
#include "sim/split/split_game.h"

namespace troupe::deploy {
namespace {

struct TrainOptions {
  std::string out;
  std::uint32_t episodes = 6'000, runs = 18;
  std::uint64_t seed = 1;
};

int run_train(const TrainOptions& options) {
  check_output(options.out);
  placement::PpoOptions ppo;
  ppo.episodes = options.episodes;
  ppo.seed = options.seed;
  ppo.on_batch = [](std::uint32_t episode, double reward) {
    if (episode % 600 == 0)
      std::cerr << "episode " << episode << ": mean reward " << fixed(reward, 4) << "\n";
  };
  const std::vector<sim::RecordedNode> nodes = sim::record_runs(options.runs, options.seed);
  sim::RecordedGame game(nodes);
  placement::TrainedPolicies trained;
  trained.made_by = "troupe-lab train --episodes " + std::to_string(options.episodes) + " --runs " +
                    std::to_string(options.runs) + " --seed " + std::to_string(options.seed);
  trained.base = train_ppo(game, ppo);
  const auto examples = sim::oracle_examples(nodes);
  trained.trees = placement::fit_trees(examples);
  write_output(options.out, policies_text(trained));
  std::cerr << examples.size() << " states with their alpha* for the decision trees; written to "
            << options.out << "\n";
  return 0;
}

}  // namespace

void add_train(Command app) {
  auto options = std::make_shared<TrainOptions>();
  Command command =
      app.add_command("train", "Train the learned policies of the pool's split in the simulator");
  command.add_option("--out", options->out, "File to write (deploy/policies/split.txt)").required();
  command
      .add_option("--episodes", options->episodes,
                  "Training episodes of HLEM's base policy; each walks through the windows of one run")
      .between(1U, 100'000U)
      .default_shown();
  command
      .add_option("--runs", options->runs,
                  "Number of simulated runs to train on; each tries every split in every window")
      .between(1U, 10'000U)
      .default_shown();
  command.add_option("--seed", options->seed, "Seed; the same seed makes the same file").default_shown();
  command.runs([options] { return run_train(*options); });
}

}  // namespace troupe::deploy
