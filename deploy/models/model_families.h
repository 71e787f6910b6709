#pragma once
// Table of model families, used by programs that serve, import or benchmark models. A family knows
// which model directories are its own (by config.json's model_type), how to describe a model before
// its weights are read, and how to load it onto the configured device. Callers pass the table as a
// value, so that a test can add a family.
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/models/engine.h"
#include "kernels/checkpoint/embedding_table.h"
#include "kernels/checkpoint/vocabulary.h"
#include "kernels/executor/executor.h"
#include "placement/cost/cost_model.h"
#include "runtime/actor/prompt_form.h"
#include "runtime/store/store_rows.h"

namespace troupe::deploy {

// Facts from config.json and the configured formats.
struct ModelFacts {
  kernels::PlanLimits limits;
  kernels::PageLayout layout;
  placement::ModelShape shape;  // cost of a pass; a readout scores one row
  // Maximum computed tokens of a pass, and working memory in bytes per token; 0 = unknown.
  std::size_t pass_tokens_max = 0, token_bytes = 0;
  // For models whose tokens are items: the one arrangement of their requests, and the features of
  // each history event besides its item. Unnamed for models with a prompt form.
  Arrangement arrangement = Arrangement::unnamed;
  std::vector<EventFeature> event_features = {};
  // Same as in PromptForm (runtime/actor/prompt_form.h).
  std::vector<Tower> towers = {};
  std::uint32_t scenarios = 1;
  std::vector<std::string> tasks = {};
  bool next_items = false;
  double temperature = 1;
  bool whole_history = false;
  bool items_are_tokens() const { return arrangement != Arrangement::unnamed; }
  std::uint32_t table_columns = 0;  // columns of embedding tables that are not in memory; 0 = none
};

// Wraps an embedding table that is not in memory, for example with a cache. Empty: no wrapper.
using WrapTable =
    std::function<std::shared_ptr<kernels::EmbeddingTable>(std::shared_ptr<kernels::EmbeddingTable>)>;

struct OpenedModel {
  std::string version;  // hash of everything the model computes with
  std::function<Engine(const WrapTable& wrap)>
      engine;  // opens the engine on the configured device; called once, because it takes the weights
  // Makes the model's assets of a catalog, for Request::assets. Empty: its searches need none.
  actors::MakeAssets make_assets;
};

struct ModelFamily {
  std::string name;
  std::vector<std::string> model_types;
  // Both throw kernels::LoadError for a faulty directory and ConfigError for invalid settings.
  std::function<ModelFacts(const std::filesystem::path& directory, const Config& config)> describe;
  std::function<OpenedModel(const std::filesystem::path& directory, const Config& config)> open;
  // Computes the model's outputs for one request in the family's own JSON format, on the CPU:
  // `troupe logits` prints them. Throws std::invalid_argument for an invalid request. Null: not
  // supported.
  std::function<nlohmann::json(const std::filesystem::path& directory, const nlohmann::json& request)> logits;
};
using ModelFamilies = std::vector<ModelFamily>;

const ModelFamilies& all_families();

// Returns the family of a model directory. Throws kernels::LoadError if config.json cannot be read
// or belongs to no family.
const ModelFamily& family_of(const ModelFamilies& families, const std::filesystem::path& directory);

// Returns the names by which a catalog's file has the tokens of a model whose tokens are items: "<item_N>"
// is token N.
kernels::Vocabulary names_of_items(const ModelFacts& facts);

}  // namespace troupe::deploy
