// Describes and reads each model that a node serves, and divides the pages of the node's pool
// between several models.
#include "deploy/node/served_model.h"

#include <algorithm>
#include <utility>

#include "deploy/models/model_prototypes.h"
#include "deploy/node/prompt_file.h"
#include "router/served_kinds.h"

namespace troupe::deploy {
namespace {

constexpr std::size_t page_tokens_max = 256;  // maximum of pool.page_tokens

// Returns "model games: " for a named model, else "".
std::string of(const std::string& name) { return name.empty() ? "" : "model " + name + ": "; }

}  // namespace

server::ModelText ServedModel::text() const {
  server::ModelText text{&vocabulary, tokenizer.get(), &prompt, controls_in_texts(config.model)};
  if (facts.items_are_tokens()) text.item_names = &item_names;
  return text;
}

void describe_model(ServedModel& model, const ModelFamilies& families) {
  Config& config = model.config;
  if (config.router.deadline > config.router.deadline_max)
    throw ConfigError(
        of(model.name) +
        "router.deadline is longer than router.deadline_max; expected at most router.deadline_max");
  const std::string directory = required_directory(config.model);
  const ModelFamily& family = family_of(families, directory);
  model.auto_weights |= config.model.weights == ModelSettings::Weights::auto_;
  resolve_weights(config.model, directory);
  model.facts = family.describe(directory, config);
  model.vocabulary = read_vocabulary_if_any(directory, model.facts.limits);
  if (model.facts.items_are_tokens()) model.item_names = names_of_items(model.facts);
  model.tokenizer = read_tokenizer_if_any(directory, model.facts.limits);
  const std::string& prompt = config.model.prompt;
  model.prompt = read_prompt_form(
      directory, prompt.empty() ? std::nullopt : std::optional<std::filesystem::path>(prompt), model.facts,
      model.vocabulary, model.tokenizer.get());
  if (model.prompt.generates() || model.prompt.items_are_tokens())
    model.prompt.history_part = config.router.history_part;
}

namespace {

void read_model(ServedModel& model, const ModelFamilies& families) {
  describe_model(model, families);
  const Config& config = model.config;
  const std::string directory = required_directory(config.model);
  model.opened = family_of(families, directory).open(directory, config);
  model.names = {model.opened.version, layout_version(config)};
  if (!config.model.versions.empty()) {
    model.versions = std::make_shared<VersionFolder>(families, config, model.auto_weights);
    model.versions->learn(directory, model.opened.version);
  }
  model.prototypes = open_prototypes(config.model, directory, model.opened.version);
  if (!model.prototypes) return;
  model.prompt.prototype_set = prototype_set_of(model.prototypes, model.opened.version);
  model.facts.table_columns = prototype_columns(config.model, *model.prototypes);
}

}  // namespace

namespace {

const std::string& required(const std::string& value, const char* setting) {
  if (!value.empty()) return value;
  throw ConfigError(std::string(setting) +
                    " is empty; expected a folder (in the configuration file or by an option)");
}

}  // namespace

const std::string& required_data_dir(const NodeSettings& settings) {
  return required(settings.data_dir, "node.data_dir");
}

const std::string& required_directory(const ModelSettings& settings) {
  return required(settings.directory, "model.directory");
}

bool ServedModel::has_sharded_table() const {
  return facts.table_columns > 0 && config.model.tables == ModelSettings::Tables::sharded;
}

std::string_view ServedModel::serves() const { return router::served_kinds(prompt); }

std::unique_ptr<Core> ServedModel::as_model_actor(std::unique_ptr<Core> core, ModelActorIds actor_ids) {
  if (name.empty()) return core;
  return std::make_unique<ModelActor>(
      std::move(core), ModelActorConfig{name, place, actor_ids, facts.layout.page_tokens, &metrics});
}

std::vector<std::unique_ptr<ServedModel>> read_models(std::vector<NamedModel> models,
                                                      const ModelFamilies& families, NodeId node) {
  const ModelActorIds actor_ids{static_cast<std::uint32_t>(models.size())};
  std::vector<std::unique_ptr<ServedModel>> read;
  for (NamedModel& model : models) {
    read.push_back(std::make_unique<ServedModel>());
    read.back()->name = std::move(model.name);
    read.back()->config = std::move(model.config);
    read.back()->place = static_cast<std::uint32_t>(read.size() - 1);
    read.back()->number = actor_ids.number(node, read.back()->place);
  }
  if (read.size() > 1) share_pages(read, families);
  for (const auto& model : read) read_model(*model, families);
  return read;
}

std::size_t share_pages(std::vector<std::unique_ptr<ServedModel>>& models, const ModelFamilies& families) {
  std::size_t page_bytes = 0;
  std::vector<std::size_t> token_bytes;
  for (const auto& model : models) {
    const std::string directory = required_directory(model->config.model);
    const ModelFacts facts = family_of(families, directory).describe(directory, model->config);
    page_bytes = std::max(page_bytes, facts.layout.page_bytes());
    token_bytes.push_back(facts.layout.token_bytes());
  }
  for (std::size_t i = 0; i < models.size(); ++i)
    models[i]->config.pool.page_tokens =
        static_cast<std::uint32_t>(std::min(page_bytes / token_bytes[i], page_tokens_max));
  return page_bytes;
}

NameContext shared_name_context(const std::vector<std::unique_ptr<ServedModel>>& models,
                                std::size_t page_bytes) {
  if (models.front()->name.empty()) return models.front()->names;
  NameContext all{"", "pages of " + std::to_string(page_bytes) + " bytes"};
  for (const auto& model : models) {
    all.model_version += model->name + " " + model->names.model_version + "\n";
    all.layout_version += "\n" + model->name + " " + model->names.layout_version;
  }
  return all;
}

void reject_single_model_settings(const Config& box, const std::vector<NamedModel>& models, bool is_alone) {
  if (is_alone && !box.cluster.coordination.empty())
    throw ConfigError(
        "cluster.coordination is set beside a list of models; expected it to be empty on a single node");
  for (const NamedModel& model : models) {
    const std::string who = of(model.name);
    if (!is_alone && model.config.features.store != box.features.store)
      throw ConfigError(
          who + "features.store differs from its node's; expected one store for all models of a cluster");
    if (is_alone && !model.config.features.store.empty())
      throw ConfigError(who +
                        "features.store is set; expected it to be empty: with several models, each has its "
                        "users and items in its data_dir");
    if (!device_choice(model.config.model).on_cpu())
      throw ConfigError(who + "model.device is " + model.config.model.device +
                        "; expected cpu: several models share a pool on the CPU only");
  }
}

}  // namespace troupe::deploy
