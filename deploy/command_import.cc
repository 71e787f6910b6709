// `troupe import`: catalogs and histories into the store of a data folder.
#include <iostream>

#include "deploy/box.h"
#include "deploy/commands.h"
#include "deploy/dataset.h"
#include "deploy/prompt_file.h"

namespace troupe::deploy {

namespace {

struct ImportOptions {
  BoxOptions box;
  std::string data;
  HistoryPart history = HistoryPart::all;
};

int run_import(const ImportOptions& options) {
  const Config config = options.box.load();
  const std::string model = required_text(config, "model.directory"),
                    folder = required_text(config, "node.data_dir");
  const kernels::DecoderConfig shape = kernels::read_decoder_config(model);
  const std::vector<PutItem> items = read_items(options.data, read_vocabulary_if_any(model, shape));
  const std::vector<PutUser> users = read_users(options.data, options.history);
  Store store(folder);
  FeaturePort features(store, feature_limits(config, shape),
                       [](auto) { return BlockName{}; });  // nothing asks for names
  features.import_items(items);
  features.import_users(users);
  std::cout << "imported " << items.size() << " items and " << users.size() << " users into " << folder
            << "; catalog " << features.catalog_version() << " has " << features.items() << " items\n";
  return 0;
}

}  // namespace

void add_import(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* command = app.add_subcommand("import", "Read a catalog and histories into a data folder");
  options->box.add_to(*command);
  command
      ->add_option("--data", options->data,
                   "Folder with items.jsonl and users.jsonl, or items.tsv and sequences.tsv "
                   "or ratings.tsv (plain or .gz)")
      ->required();
  const std::map<std::string, HistoryPart> parts{
      {"all", HistoryPart::all}, {"before-test", HistoryPart::before_test}, {"train", HistoryPart::train}};
  command->add_option("--history", options->history, "Which part of sequences.tsv: all, before-test or train")
      ->transform(CLI::CheckedTransformer(parts));
  command->callback([options, &chosen] { chosen = [options] { return run_import(*options); }; });
}

}  // namespace troupe::deploy
