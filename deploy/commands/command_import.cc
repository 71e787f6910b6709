// `troupe import`: imports catalogs and histories into a node's feature store. An import is
// complete or is not used.
#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <thread>
#include <unordered_set>

#include "deploy/commands/commands.h"
#include "deploy/commands/import_call.h"
#include "deploy/data/dataset.h"
#include "deploy/data/import_check.h"
#include "deploy/data/table_rows.h"
#include "deploy/data/time_text.h"
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
  std::string csv, tsv, jsonl, columns;  // a table instead of a data folder
  ServerOptions server{.server = ""};    // "" = into a store
  bool replace = false, skip_unknown = false, adopt = false, append = false;

  bool reads_table() const { return !csv.empty() || !tsv.empty() || !jsonl.empty(); }
  bool calls_server() const { return !server.server.empty(); }
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
  if (options.calls_server()) return options.box.load();
  if (options.node.empty() && !options.served.empty())
    throw ConfigError(
        "--served requires --node, a node of a cluster, or --server; expected --data-dir for a single node, "
        "where each model has its own folder");
  if (options.node.empty()) return options.box.load();
  if (!options.box.model.empty() || !options.box.data_dir.empty() || !options.box.prompt.empty())
    throw ConfigError(
        "--node permits only --config and --set beside it; the cluster's file names model and data folder");
  const ClusterNode node = find_node(load_cluster(options.box.config_file), options.node);
  Config config = node.models.empty() ? node.config : find_model(node.models, options.served).config;
  if (node.models.empty() && !options.served.empty())
    throw ConfigError("--served is " + options.served +
                      ", but the cluster has no list of models; expected no --served");
  apply_environment(config, options.box.environment);
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
  std::string version;
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
  model.version = family.open(directory, config).version;
  model.made_for = made_for(model.version, model.vocabulary, model.form);
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
  std::vector<std::string> notes = {};  // lines of the report: what a table had
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

std::string count_of(std::uint64_t count, const char* thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

void take_items(TableItems read, ImportRows& rows) {
  rows.items = std::move(read.items);
  rows.notes.push_back("tokens of the items: " + read.tokens_from);
  if (read.left_out == 0) return;
  std::string first;
  for (const std::string& item : read.left_out_first)
    append_json_string(first += first.empty() ? "" : ", ", item);
  rows.notes.push_back("left out " + count_of(read.left_out, "item") + " that the model has no tokens for: " +
                       first + (read.left_out > read.left_out_first.size() ? ", …" : ""));
}

void take_users(TableUsers read, const RouterSettings& settings, ImportRows& rows) {
  rows.users = std::move(read.users);
  std::string& events = rows.notes.emplace_back(count_of(read.events, "event"));
  if (read.first) events += " from " + iso_text(*read.first) + " to " + iso_text(*read.last);
  if (read.repeated > 0)
    rows.notes.push_back("left out " + count_of(read.repeated, "event") + " with the id of an earlier one");
  if (read.cut > 0)
    rows.notes.push_back("left out the oldest " + count_of(read.cut, "event") + " of " +
                         count_of(read.cut_users, "user") + ": a history has at most " +
                         std::to_string(settings.history_events_max) + " (router.history_events_max)");
  for (const std::string& word : read.unread)
    rows.notes.push_back(word + " was not read: the model does not read it of events");
}

ImportRows read_table(const ImportOptions& options, const ImportModel& model, const Config& config) {
  const TableKind kind = !options.csv.empty()   ? TableKind::csv
                         : !options.tsv.empty() ? TableKind::tsv
                                                : TableKind::jsonl;
  const std::unique_ptr<RowTable> table = RowTable::open(kind, options.csv + options.tsv + options.jsonl);
  const TableColumns columns =
      options.columns.empty() ? columns_named_as_words(table->columns()) : parse_columns(options.columns);
  TableReading reading{.rows = reading_for(model, config.router),
                       .event_features = model.facts.event_features,
                       .skip_unknown = options.skip_unknown};
  ImportRows rows;
  if (columns.content != TableContent::items) {
    if (options.replace)
      throw ConfigError("--replace is for catalogs, and this table has users; expected no --replace");
    take_users(columns.content == TableContent::events ? read_event_table(*table, columns, reading)
                                                       : read_profile_table(*table, columns, reading),
               config.router, rows);
    return rows;
  }
  std::optional<ModelItems> items;
  if (!columns.find("tokens")) items = ModelItems::of_model(required_directory(config.model), reading.rows);
  if (items) reading.items = &*items;
  take_items(read_item_table(*table, columns, reading), rows);
  if (options.replace && rows.items.rows.empty())
    throw ConfigError(name_of_input(rows.items.file) +
                      ": the table has no items, and --replace would remove the whole catalog; expected a "
                      "catalog");
  return rows;
}

ImportRows read_folder(const ImportOptions& options, const ImportModel& model, const Config& config) {
  const RowReading reading = reading_for(model, config.router);
  return {read_item_rows(options.data, reading),
          read_user_rows(options.data, history_parts.at(options.history), reading)};
}

ImportRows read_rows(const ImportOptions& options, const ImportModel& model, const Config& config) {
  ImportRows rows =
      options.reads_table() ? read_table(options, model, config) : read_folder(options, model, config);
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

void print_notes(const ImportRows& rows, const UnknownItemEvents& unknown, bool reads_identifiers) {
  for (const std::string& note : rows.notes) std::cout << terminal_text(note) << "\n";
  if (unknown.events > 0) std::cout << terminal_text(describe_left_out(unknown)) << "\n";
  const std::string warning = reads_identifiers ? describe_shared_identifiers(rows.items) : "";
  if (!warning.empty()) std::cout << warning << "\n";
}

void tell(const ImportOptions& options, const ImportRows& rows, FeatureStore& features, const Config& config,
          std::uint64_t items_gone, bool users_gone) {
  std::cout << "imported " << rows.items.rows.size() << " items and " << rows.users.rows.size() << " users"
            << (options.tenant.empty() ? "" : " of tenant " + options.tenant) << " into "
            << features_location(config) << "; catalog " << features.catalog_version() << " has "
            << features.items() << " items\n";
  if (items_gone > 0) std::cout << items_gone << " items of the former catalog were removed\n";
  if (users_gone) std::cout << "all former users were removed: they belonged to another model\n";
}

// ---- into a running server ----

// Tokens of one model mean something else to another.
void reject_if_other_model(const SendRequest& send, const ImportOptions& options, const ImportModel& model) {
  const server::HttpReply reply = send("/v1/models", "");
  const nlohmann::json parsed = nlohmann::json::parse(reply.body, nullptr, false);
  if (reply.status != 200 || !parsed.is_object()) return;  // the writes will say why
  std::string served;
  for (const nlohmann::json& one : parsed.value("data", nlohmann::json::array())) {
    if (!one.is_object()) continue;
    const std::string id = one.value("id", ""), version = one.value("version", id);
    if (version == model.version && (options.served.empty() || options.served == id)) return;
    served += (served.empty() ? "" : ", ") + (version == id ? id : id + " (" + version + ")");
  }
  throw ConfigError(options.server.server + " serves " + (served.empty() ? "no model" : served) +
                    "; expected " + (options.served.empty() ? "" : options.served + " with ") + "version " +
                    model.version + ", that of --model " + options.box.model);
}

[[noreturn]] void fail_refused(const ImportLines& lines, const ImportResult& result) {
  const RefusedLine& first = result.refused.front();
  throw std::runtime_error(lines.where(first.row, first.where) + ": " +
                           (first.where.empty() ? "" : first.where + ": ") + first.message + "; expected " +
                           first.expected + ". The server refused " + std::to_string(result.refused.size()) +
                           " and stored " + std::to_string(result.stored) + " of " +
                           std::to_string(lines.count) + " rows: " + lines.advice);
}

void wait_for_server() { std::this_thread::sleep_for(std::chrono::seconds(1)); }

std::string path_of(const char* path, const ImportOptions& options) {
  return path + (options.served.empty() ? "" : "?model=" + options.served);
}

// Requests see the items together, as one version of the catalog: the last item is sent once more, to publish
// it and the others.
ImportResult send_items(const SendRequest& send, const ImportOptions& options, const ImportRows& rows) {
  const std::vector<PutItem>& items = rows.items.rows;
  if (items.empty()) return {};
  ImportLines lines{path_of("/v1/items", options), items.size(),
                    [&](std::size_t row) {
                      PutItem item = items[row];
                      item.publish = false;
                      return line_of(item);
                    },
                    [&](std::size_t row, const std::string&) { return rows.items.where(row); }};
  const ImportResult stored = send_lines(send, lines, wait_for_server);
  if (!stored.refused.empty()) fail_refused(lines, stored);
  lines.count = 1;
  lines.line = [&](std::size_t) { return line_of(items.back()); };
  ImportResult published = send_lines(send, lines, wait_for_server);
  if (!published.refused.empty()) fail_refused(lines, published);
  published.stored = stored.stored;
  return published;
}

// Returns the event that a field names: 3 of "history[3]" and of "events[3].item".
std::optional<std::size_t> event_of(const std::string& field) {
  std::size_t at = field.find('['), event = 0;
  if (at == field.npos || (!field.starts_with("history[") && !field.starts_with("events[")))
    return std::nullopt;
  for (++at; at < field.size() && field[at] >= '0' && field[at] <= '9'; ++at)
    event = 10 * event + static_cast<std::size_t>(field[at] - '0');
  return event;
}

// Returns the item of a refused history that the server's catalog does not have; "" if the reason is another.
std::string unknown_item_of(const RefusedLine& refused, const PutUser& user) {
  const std::optional<std::size_t> event = event_of(refused.where);
  return refused.code == "unknown_item" && event && *event < user.history.size() ? user.history[*event] : "";
}

// Events are appended once only if they have ids.
std::string advice_for(const ImportOptions& options, const DataRows<PutUser>& users) {
  const bool has_ids = std::ranges::all_of(users.rows, [](const PutUser& user) {
    return !user.event_ids.empty() && std::ranges::none_of(user.event_ids, &std::string::empty);
  });
  if (!options.append || has_ids) return "import again";
  return "import only the others, because events without an id (id=COLUMN) are appended each time";
}

// With --skip-unknown, users whose history has an unknown item are sent again without it: a server names one
// unknown item of a history at a time.
ImportResult send_users(const SendRequest& send, const ImportOptions& options, const DataRows<PutUser>& users,
                        std::set<std::string>& unknown) {
  std::vector<std::size_t> chosen(users.rows.size());
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  ImportResult all;
  while (!chosen.empty()) {
    const auto sent = [&, left_out = unknown](std::size_t row) {
      const auto knows = [&](const std::string& item) { return !left_out.contains(item); };
      return known_part(users.rows[chosen[row]], knows);
    };
    std::vector<std::size_t> again;
    const ImportLines lines{
        path_of(options.append ? "/v1/events" : "/v1/users", options), chosen.size(),
        [&](std::size_t row) { return options.append ? events_line_of(sent(row)) : line_of(sent(row)); },
        [&](std::size_t row, const std::string& field) {
          const std::optional<std::size_t> event = event_of(field);
          const bool is_whole = unknown.empty() && !users.event_lines.empty();  // no event was left out
          return event && is_whole ? users.where_event(chosen[row], *event) : users.where(chosen[row]);
        },
        advice_for(options, users)};
    const ImportResult result = send_lines(send, lines, wait_for_server, [&](const RefusedLine& refused) {
      const std::string item = unknown_item_of(refused, sent(refused.row));
      if (!options.skip_unknown || item.empty()) return false;
      unknown.insert(item);
      again.push_back(chosen[refused.row]);
      return true;
    });
    all.stored += result.stored;
    if (result.refused.size() > again.size()) fail_refused(lines, result);
    if (options.append)  // nothing is left of these to append
      std::erase_if(again, [&](std::size_t row) {
        return std::ranges::all_of(users.rows[row].history,
                                   [&](const std::string& item) { return unknown.contains(item); });
      });
    chosen = std::move(again);
  }
  return all;
}

int run_server_import(const ImportOptions& options, const ImportRows& rows, const ImportModel& model) {
  ServerOptions server = options.server;
  server.tenant = options.tenant;
  const SendRequest send = requests_to(server);
  reject_if_other_model(send, options, model);
  std::set<std::string> unknown;
  const ImportResult items = send_items(send, options, rows),
                     users = send_users(send, options, rows.users, unknown);
  std::cout << "imported " << items.stored << " items and " << users.stored << " users"
            << (options.tenant.empty() ? "" : " of tenant " + options.tenant) << " into "
            << options.server.server;
  if (items.version > 0) std::cout << "; its catalog is c" << items.version;
  std::cout << "\n";
  const auto knows = [&](const std::string& item) { return !unknown.contains(item); };
  print_notes(rows, find_unknown(rows.users, knows), model.form.reads_identifiers());
  return 0;
}

int run_import(const ImportOptions& options) {
  const Config config = config_of(options);
  reject_if_bad_tenant(options.tenant);
  const ImportModel model = read_model(config);
  ImportRows rows = options.adopt ? ImportRows{} : read_rows(options, model, config);
  if (options.calls_server()) return run_server_import(options, rows, model);
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
  tell(options, rows, *features, config, options.replace ? before - stay : 0, users_gone);
  print_notes(rows, unknown, model.form.reads_identifiers());
  std::cout << model.declared << " (`troupe verify` checks it)\n";
  return 0;
}

}  // namespace

namespace {

void add_table_options(Command command, ImportOptions& options, Option data) {
  const Option csv = command
                         .add_option("--csv", options.csv,
                                     "CSV file (RFC 4180) with a catalog, with one event a row, or with one "
                                     "history a row; plain, gzip or zstd; - = standard input")
                         .excludes(data);
  const Option tsv =
      command.add_option("--tsv", options.tsv, "The same with tabs between the fields, and without quotes")
          .excludes(data)
          .excludes(csv);
  command.add_option("--jsonl", options.jsonl, "The same as one JSON object a line")
      .excludes(data)
      .excludes(csv)
      .excludes(tsv);
  command.add_option(
      "--columns", options.columns,
      "Columns of the table, as WORD=COLUMN or WORD=COLUMN:FORM, separated by commas. Words of a "
      "catalog: item, title, tokens, identifier; of events: user, item, timestamp, action, id; "
      "of histories: user, history, timestamps, actions, event_ids. Forms of times: s, ms, us, "
      "ns, iso; of tokens: ids, text, codes. Default: the columns that have these names");
}

void add_server_options(Command command, ImportOptions& options) {
  command
      .add_option(
          "--server", options.server.server,
          "Import into a running server, host:port, with https:// before it for TLS, instead of a data "
          "folder")
      .excludes("--data-dir")
      .excludes("--node");
  command.add_option("--key-file", options.server.key_file, "File with the API key (troupe keys)")
      .needs("--server");
  command
      .add_option(
          "--authority", options.server.authority_file,
          "With https://: PEM file of the authority that signed the server's certificate; default: the "
          "system's authorities")
      .needs("--server");
  command
      .add_flag("--append", options.append,
                "Append the events to the users' histories instead of replacing "
                "these")
      .needs("--server");
}

void reject_if_unusable(const ImportOptions& options) {
  if (options.data.empty() && !options.reads_table() && !options.adopt)
    throw ConfigError(
        "--data is missing; expected a folder with a catalog, items.jsonl or items.tsv, or a table: --csv, "
        "--tsv or --jsonl");
  if (!options.columns.empty() && !options.reads_table())
    throw ConfigError("--columns names columns of a table; expected --csv, --tsv or --jsonl");
  if (options.calls_server() && (options.replace || options.adopt))
    throw ConfigError(std::string("--server does not permit ") + (options.adopt ? "--adopt" : "--replace") +
                      "; expected --data-dir of a node that does not run, or --node");
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
  command.add_option("--served", options->served,
                     "With --node or --server: model to import for, if several are served");
  command.add_option("--tenant", options->tenant,
                     "Tenant of the users, as API keys and x-troupe-tenant name it; default: the default "
                     "tenant. Items belong to all");
  add_table_options(command, *options, data);
  add_server_options(command, *options);
  command
      .add_option("--history", options->history, "Part of sequences.tsv to import: all, before-test or train")
      .one_of({"all", "before-test", "train"})
      .default_shown();
  command.add_flag("--replace", options->replace,
                   "Replace the catalog: remove items that are not in these files, and remove all users if "
                   "they belong to another model");
  command.add_flag("--skip-unknown", options->skip_unknown,
                   "Skip events of items that the catalog does not have, and items of a table that the model "
                   "has no tokens for, and list them");
  command
      .add_flag("--adopt", options->adopt,
                "Import nothing; mark the present rows as this model's, whose tokens have the same meaning")
      .excludes(data)
      .excludes("--csv")
      .excludes("--tsv")
      .excludes("--jsonl");
  command.runs([options] {
    reject_if_unusable(*options);
    return run_import(*options);
  });
}

}  // namespace troupe::deploy
