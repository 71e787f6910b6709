// `troupe import`: catalogs and histories into the store of a data folder.
#include <iostream>
#include <map>

#include "deploy/box/box.h"
#include "deploy/box/cluster_file.h"
#include "deploy/box/prompt_file.h"
#include "deploy/commands/commands.h"
#include "deploy/data/dataset.h"

namespace troupe::deploy {

namespace {

struct ImportOptions {
  BoxOptions box;
  std::string data, node, history = "all";
};

const std::map<std::string, HistoryPart> history_parts{
    {"all", HistoryPart::all}, {"before-test", HistoryPart::before_test}, {"train", HistoryPart::train}};

// As a node of a cluster, from the cluster's file; or as a box.
Config config_of(const ImportOptions& options) {
  if (options.node.empty()) return options.box.load();
  if (!options.box.model.empty() || !options.box.data_dir.empty() || !options.box.prompt.empty())
    throw ConfigError("--node goes with --config and --set only; the file says where model and data are");
  Config config = find_node(load_cluster(options.box.config_file), options.node).config;
  apply_settings(config, options.box.settings);
  return config;
}

int run_import(const ImportOptions& options) {
  const Config config = config_of(options);
  const std::string model = required_text(config, "model.directory");
  const kernels::PlanLimits limits = family_of(all_families(), model).describe(model, config).limits;
  const std::vector<PutItem> items = read_items(options.data, read_vocabulary_if_any(model, limits));
  const std::vector<PutUser> users = read_users(options.data, history_parts.at(options.history));
  const bool in_redis = features_in_redis(config);
  const std::string place = in_redis ? "the Redis of features.store" : required_text(config, "node.data_dir");
  const std::unique_ptr<Store> folder = in_redis ? nullptr : std::make_unique<Store>(place, store_options(config));
  const auto features = open_features(config, folder.get(), feature_limits(config, limits), 1,
                                      [](auto) { return BlockName{}; });  // nothing asks for names
  features->import_items(items);
  features->import_users(users);
  std::cout << "imported " << items.size() << " items and " << users.size() << " users into " << place
            << "; catalog " << features->catalog_version() << " has " << features->items() << " items\n";
  return 0;
}

}  // namespace

void add_import(Command app) {
  auto options = std::make_shared<ImportOptions>();
  Command command = app.add_command("import", "Read a catalog and histories into a data folder");
  options->box.add_to(command);
  command
      .add_option("--data", options->data,
                  "Folder with items.jsonl and users.jsonl, or items.tsv and sequences.tsv "
                  "or ratings.tsv (plain or .gz)")
      .required();
  command.add_option("--node", options->node, "--config is a cluster's file: as this node of it")
      .needs("--config");
  command.add_option("--history", options->history, "Which part of sequences.tsv: all, before-test or train")
      .one_of({"all", "before-test", "train"})
      .default_shown();
  command.runs([options] { return run_import(*options); });
}

}  // namespace troupe::deploy
