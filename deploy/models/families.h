#pragma once
// The table of model families: what a program that serves, imports or times models knows of them. A family
// says which directories are its own, by config.json's model_type; what of a model is to be known before its
// weights are read; and how it is read and put on the device that is configured. Whoever runs models takes
// the table as a value, so that a test can add a family of its own.
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
#include "kernels/executor/executor.h"
#include "placement/cost/cost_model.h"
#include "runtime/actor/prompt_form.h"
#include "runtime/store/store_rows.h"

namespace troupe::deploy {

// By config.json, and the formats that are configured.
struct ModelFacts {
  kernels::PlanLimits limits;
  kernels::PageLayout layout;
  placement::ModelShape shape;  // what a pass takes; a readout scores one row
  // Of a pass: computed tokens at most, and working memory of each; 0: nobody says before it is tried.
  std::size_t pass_tokens_max = 0, token_bytes = 0;
  // Where tokens are items: the one plan of its requests (router/request/plans.h), and what each event of a
  // history has beside its item. Otherwise a prompt form frames its prompts.
  std::string_view history_plan = {};
  std::vector<EventFeature> event_features = {};
  // As of PromptForm (runtime/actor/prompt_form.h).
  std::vector<Tower> towers = {};
  std::uint32_t scenarios = 1;
  std::vector<std::string> tasks = {};
  std::uint32_t table_columns = 0;  // of its embedding tables, where they are not in memory
};

// What stands between an executor and an embedding table that is not in memory. None: nothing does.
using WrapTable =
    std::function<std::shared_ptr<kernels::EmbeddingTable>(std::shared_ptr<kernels::EmbeddingTable>)>;

struct OpenedModel {
  std::string version;  // a hash of all that the model computes with
  std::function<Engine(const WrapTable& wrap)>
      engine;  // on the configured device; takes the weights, so it is asked once
  // What it computes with of a catalog, for Request::assets; none: what its searches may return.
  actors::MakeAssets make_assets;
};

struct Family {
  std::string name;
  std::vector<std::string> model_types;
  // Throw kernels::LoadError of the directory, ConfigError of what is configured.
  std::function<ModelFacts(const std::filesystem::path& directory, const Config& config)> describe;
  std::function<OpenedModel(const std::filesystem::path& directory, const Config& config)> open;
  // The model's outputs for one request in the family's own form, computed at once on the CPU: what `troupe
  // logits` prints. Throws std::invalid_argument of the request; null: this family has none.
  std::function<nlohmann::json(const std::filesystem::path& directory, const nlohmann::json& request)> logits;
};
using Families = std::vector<Family>;

const Families& all_families();

// Of a model directory. Throws kernels::LoadError where config.json cannot be read or is of no family.
const Family& family_of(const Families& families, const std::filesystem::path& directory);

}  // namespace troupe::deploy
