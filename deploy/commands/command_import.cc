// `troupe import`: imports catalogs and histories into a node's feature store. An import is
// complete or is not used.
#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "deploy/commands/commands.h"
#include "deploy/data/dataset.h"
#include "deploy/data/import_check.h"
#include "deploy/node/cluster_file.h"
#include "deploy/node/feature_ownership.h"
#include "deploy/node/local_node.h"
#include "deploy/node/prompt_file.h"
#include "deploy/verify/form_file.h"
#include "runtime/wire/json_text.h"
#include "server/formats/tenant_name.h"

namespace troupe::deploy {

namespace {

constexpr std::uint32_t tenant_bytes_max = 256;  // as of an API key

struct ImportOptions {
  ConfigOptions box;
  std::string data, node, served, tenant, history = "all";
  bool replace = false, skip_unknown = false, adopt = false;
};

const std::map<std::string, HistoryPart> history_parts{
    {"all", HistoryPart::all}, {"before-test", HistoryPart::before_test}, {"train", HistoryPart::train}};

void warn_of_store(const std::string& what) {
  std::cerr << "troupe: warning: Redis may drop rows that it has acknowledged: " << what
            << "; expected maxmemory-policy noeviction\n";
}

const NamedModel& find_model(const std::vector<NamedModel>& models, const std::string& name) {
  std::string names;
  for (const NamedModel& model : models) {
    if (model.name == name) return model;
    names += (names.empty() ? "" : ", ") + model.name;
  }
  throw ConfigError("--served is " + (name.empty() ? "missing" : name) + "; expected one of " + names +
                    ", the model of these rows");
}

// Returns the configuration of a node of a cluster's file (--node), or of a single node.
Config config_of(const ImportOptions& options) {
  if (options.node.empty() && !options.served.empty())
    throw ConfigError(
        "--served requires --node, a node of a cluster; expected --data-dir for a single node, where each "
        "model has its own folder");
  if (options.node.empty()) return options.box.load();
  if (!options.box.model.empty() || !options.box.data_dir.empty() || !options.box.prompt.empty())
    throw ConfigError(
        "--node permits only --config and --set beside it; the cluster's file names model and data folder");
  const ClusterNode node = find_node(load_cluster(options.box.config_file), options.node);
  Config config = node.models.empty() ? node.config : find_model(node.models, options.served).config;
  if (node.models.empty() && !options.served.empty())
    throw ConfigError("--served is " + options.served +
                      ", but the cluster has no list of models; expected no --served");
  apply_settings(config, options.box.settings);
  return config;
}

// Parts of a model that reading rows requires.
struct ImportModel {
  ModelFacts facts;
  kernels::Vocabulary vocabulary, item_names;
  std::unique_ptr<const Tokenizer> tokenizer;  // null: the model has none
  ControlTokens controls = ControlTokens::as_text;
  ModelFingerprints made_for;
  PromptForm form;
  std::string declared;  // what its form declares, as a sentence
};

ImportModel read_model(const Config& config) {
  const std::string directory = required_directory(config.model);
  const ModelFamily& family = family_of(all_families(), directory);
  ImportModel model{.facts = family.describe(directory, config)};
  model.vocabulary = read_vocabulary_if_any(directory, model.facts.limits);
  if (model.facts.items_are_tokens()) model.item_names = names_of_items(model.facts);
  model.tokenizer = read_tokenizer_if_any(directory, model.facts.limits);
  model.controls = controls_in_texts(config.model);
  const std::string& prompt = config.model.prompt;
  model.form = read_prompt_form(directory,
                                prompt.empty() ? std::nullopt : std::optional<std::filesystem::path>(prompt),
                                model.facts, model.vocabulary, model.tokenizer.get());
  model.declared = describe_arrangements(model.form);
  model.made_for = made_for(family.open(directory, config).version, model.vocabulary, model.form);
  return model;
}

// Returns null if profiles and items are in a Redis.
std::unique_ptr<Store> open_folder(const Config& config) {
  if (features_in_redis(config.features)) return nullptr;
  const std::string folder = required_data_dir(config.node);
  make_data_folder(folder);
  auto store = std::make_unique<Store>(folder, store_options(config.store));
  const StoreHealth health = store->health();
  for (const StoreLoss& loss : health.lost) std::cerr << "acknowledged and lost: " << describe(loss) << "\n";
  if (!health.aside.empty())
    std::cerr << "the damaged store is in " << health.aside << ", all losses are listed in lost.txt\n";
  return store;
}

bool has_item(FeatureStore& features, const std::string& item) {
  const JobResult found = features.run(FindFeatures{"", "", {item}}, 0);
  const auto* catalog = std::get_if<Features>(&found);
  return catalog && catalog->items.at(0) != no_item;
}

std::uint64_t count_known(const DataRows<PutItem>& items, FeatureStore& features) {
  std::uint64_t known = 0;
  for (const PutItem& item : items.rows) known += has_item(features, item.item);
  return known;
}

// Returns a predicate that is true for items of the files, and for items of the catalog unless it
// is replaced.
KnowsItem items_known(const DataRows<PutItem>& items, FeatureStore& features, bool replace) {
  auto ids = std::make_shared<std::unordered_set<std::string>>();
  for (const PutItem& item : items.rows) ids->insert(item.item);
  return [ids, &features, replace](const std::string& item) {
    if (ids->contains(item)) return true;
    return !replace && has_item(features, item);
  };
}

// Returns true if the present users are to be dropped: they belong to another model or to an
// unfinished import. Without --replace, throws in these cases. Never drops users whose rows have no
// note of their model; with --replace, that throws, too.
bool drops_users(FeatureStore& features, const ModelFingerprints& present, const Config& config,
                 bool replace) {
  if (features.half_imported()) {
    if (!replace) throw ConfigError(describe_unfinished_import(config));
    return true;
  }
  const auto noted = features.made_for();
  if (features.untouched() || (!noted && !replace)) return false;
  if (!noted)
    throw ConfigError(features_location(config) + ": its rows have no note of their model; expected " +
                      "`troupe import --adopt` first, if they belong to " + config.model.directory + ", or " +
                      (features_in_redis(config.features) ? "another features.store or cluster.name"
                                                          : "another node.data_dir"));
  const std::string why = describe_mismatch(*noted, present, config);
  if (!why.empty() && !replace) throw ConfigError(why);
  return !why.empty();
}

int adopt(FeatureStore& features, const ModelFingerprints& present, const Config& config) {
  const auto noted = features.made_for();
  const auto kept = noted ? decode_model_fingerprints(*noted) : std::nullopt;
  if (kept && kept->vocabulary != present.vocabulary)
    throw ConfigError(describe_mismatch(*noted, present, config) + ". Nothing was changed");
  features.note_made_for(encode(present));
  std::cout << features_location(config) << ": its " << features.items()
            << " items and its users are those of " << config.model.directory << " from now on\n";
  return 0;
}

struct ImportRows {
  DataRows<PutItem> items;
  DataRows<PutUser> users;
};

// Rows have the limits of the server of this configuration, so that a file has what it would take.
RowReading reading_for(const ImportModel& model, const RouterSettings& settings) {
  RowReading reading{.text = {&model.vocabulary, model.tokenizer.get(), &model.form, model.controls}};
  if (model.facts.items_are_tokens()) reading.text.item_names = &model.item_names;
  reading.limits = {
      settings.history_events_max, static_cast<std::uint32_t>(model.facts.limits.positions_max), {}};
  for (const EventFeature& feature : model.facts.event_features)
    reading.limits.event_features.push_back(feature.name);
  return reading;
}

ImportRows read_rows(const ImportOptions& options, const ImportModel& model, const Config& config) {
  const RowReading reading = reading_for(model, config.router);
  ImportRows rows{read_item_rows(options.data, reading),
                  read_user_rows(options.data, history_parts.at(options.history), reading)};
  reject_duplicates(rows.items);
  reject_duplicates(rows.users);
  for (PutUser& user : rows.users.rows) user.tenant = options.tenant;
  return rows;
}

// Requests name the tenant in the same words, so its name is checked in the same way.
void reject_if_bad_tenant(const std::string& tenant) {
  if (const auto fault = server::find_tenant_fault(tenant, "--tenant"))
    throw ConfigError("--tenant: " + fault->what + "; expected " + fault->expected);
  if (tenant.size() > tenant_bytes_max)
    throw ConfigError("--tenant has " + std::to_string(tenant.size()) + " bytes; expected at most " +
                      std::to_string(tenant_bytes_max));
}

// Removes events of unknown items and returns them. Refuses any unless `skip_unknown`.
UnknownItemEvents remove_unknown(ImportRows& rows, const KnowsItem& knows, bool skip_unknown) {
  UnknownItemEvents unknown = find_unknown(rows.users, knows);
  if (!skip_unknown) reject_unknown_items(unknown);
  if (unknown.events > 0) drop_unknown(rows.users, knows);
  return unknown;
}

void tell(const ImportOptions& options, const ImportRows& rows, const UnknownItemEvents& unknown,
          FeatureStore& features, const Config& config, std::uint64_t items_gone, bool users_gone,
          bool reads_identifiers) {
  std::cout << "imported " << rows.items.rows.size() << " items and " << rows.users.rows.size() << " users"
            << (options.tenant.empty() ? "" : " of tenant " + options.tenant) << " into "
            << features_location(config) << "; catalog " << features.catalog_version() << " has "
            << features.items() << " items\n";
  if (items_gone > 0) std::cout << items_gone << " items of the former catalog were removed\n";
  if (users_gone) std::cout << "all former users were removed: they belonged to another model\n";
  if (unknown.events > 0) std::cout << terminal_text(describe_left_out(unknown)) << "\n";
  const std::string warning = reads_identifiers ? describe_shared_identifiers(rows.items) : "";
  if (!warning.empty()) std::cout << warning << "\n";
}

int run_import(const ImportOptions& options) {
  const Config config = config_of(options);
  reject_if_bad_tenant(options.tenant);
  const ImportModel model = read_model(config);
  ImportRows rows = options.adopt ? ImportRows{} : read_rows(options, model, config);
  const std::unique_ptr<Store> folder = open_folder(config);
  const auto features = open_features(
      config, folder.get(), feature_limits(config.router, model.facts), 1,
      [](auto) { return BlockName{}; },  // block names are not needed
      {.on_loss = warn_of_store, .on_risk = warn_of_store}, options.served);
  if (options.adopt) return adopt(*features, model.made_for, config);
  const bool users_gone = drops_users(*features, model.made_for, config, options.replace);
  const UnknownItemEvents unknown =
      remove_unknown(rows, items_known(rows.items, *features, options.replace), options.skip_unknown);
  const std::uint64_t before = features->items();
  const std::uint64_t stay = count_known(rows.items, *features);
  features->import({.items = rows.items.rows,
                    .users = rows.users.rows,
                    .replace = options.replace,
                    .forget_users = users_gone,
                    .made_for = encode(model.made_for),
                    .where = [&rows](std::string_view kind, std::size_t row) {
                      return kind == "item" ? rows.items.where(row) : rows.users.where(row);
                    }});
  tell(options, rows, unknown, *features, config, options.replace ? before - stay : 0, users_gone,
       model.form.reads_identifiers());
  std::cout << model.declared << " (`troupe verify` checks it)\n";
  return 0;
}

}  // namespace

void add_import(Command app) {
  auto options = std::make_shared<ImportOptions>();
  Command command = app.add_command("import", "Import a catalog and histories into a node's feature store");
  options->box.add_to(command);
  const Option data = command.add_option("--data", options->data,
                                         "Folder with items.jsonl and users.jsonl, or items.tsv and "
                                         "sequences.tsv or ratings.tsv (plain or .gz)");
  command.add_option("--node", options->node, "Import for this node of the cluster's file in --config")
      .needs("--config");
  command.add_option("--served", options->served, "Model to import for, if the cluster serves several")
      .needs("--node");
  command.add_option("--tenant", options->tenant,
                     "Tenant of the users, as API keys and x-troupe-tenant name it; default: the default "
                     "tenant. Items belong to all");
  command
      .add_option("--history", options->history, "Part of sequences.tsv to import: all, before-test or train")
      .one_of({"all", "before-test", "train"})
      .default_shown();
  command.add_flag("--replace", options->replace,
                   "Replace the catalog: remove items that are not in these files, and remove all users if "
                   "they belong to another model");
  command.add_flag("--skip-unknown", options->skip_unknown,
                   "Skip events of items that the catalog does not have, and list them");
  command
      .add_flag("--adopt", options->adopt,
                "Import nothing; mark the present rows as this model's, whose tokens have the same meaning")
      .excludes(data);
  command.runs([options] {
    if (options->data.empty() && !options->adopt)
      throw ConfigError("--data is missing; expected a folder with a catalog, items.jsonl or items.tsv");
    return run_import(*options);
  });
}

}  // namespace troupe::deploy
