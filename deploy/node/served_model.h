#pragma once
// State of each model that a node serves: its facts, profiles and items, and the ports of its
// router and inference worker. The node owns the pool, saved blocks and coordination.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/models/model_families.h"
#include "deploy/node/coordination_port.h"
#include "deploy/node/placement_port.h"
#include "deploy/node/record_port.h"
#include "deploy/node/version_folder.h"
#include "kernels/checkpoint/vocabulary.h"
#include "kernels/decoder/prototypes.h"
#include "router/request/block_names.h"
#include "runtime/config/model_list.h"
#include "runtime/features/feature_store.h"
#include "runtime/host/model_actor.h"
#include "runtime/store/store.h"
#include "runtime/tokenizer/tokenizer.h"
#include "server/formats/model_text.h"

namespace troupe::deploy {

// Return a setting that has no default. Throw ConfigError if it is empty.
const std::string& required_data_dir(const NodeSettings& settings);
const std::string& required_directory(const ModelSettings& settings);

struct ServedModel {
  std::string name;         // "": the only model, without a name
  Config config;            // per model, if there are several
  std::uint32_t place = 0;  // index in the list of models
  NodeId number =
      1;  // actor id of its router and inference worker on this node (runtime/actor/model_actor_ids.h)
  ModelFacts facts;
  NameContext names;
  kernels::Vocabulary vocabulary;
  kernels::Vocabulary item_names;              // <item_1>, … of a model whose tokens are items
  std::unique_ptr<const Tokenizer> tokenizer;  // null: the model has none
  PromptForm prompt;
  std::shared_ptr<const kernels::Prototypes> prototypes;  // null: the model has none
  OpenedModel opened;                                     // emptied once the worker has taken it
  // Profiles and items of one model among several; null: they are in the node's store or in Redis.
  std::unique_ptr<Store> store;
  std::unique_ptr<FeatureStore> features;
  std::unique_ptr<actors::ComputePort> compute;
  std::unique_ptr<CoordinationPort> coordination_port;
  // null: answers are not recorded, or `record_port` refuses, as their store could not be opened
  std::unique_ptr<RecordStore> records;
  std::unique_ptr<RecordPort> record_port;        // in front of the coordination's
  std::unique_ptr<PlacementPort> placement_port;  // in front of both; null: pool.placement is no file
  MetricRegistry metrics;  // of one model among several: counts of its router and inference worker
  std::shared_ptr<VersionFolder> versions;  // null: model.versions is empty
  bool auto_weights = false;                // model.weights was auto before it was resolved

  server::ModelText text() const;
  bool has_sharded_table() const;  // its item embedding is spread over the workers' pools
  Port* router_port() const {
    if (placement_port) return placement_port.get();
    return record_port ? static_cast<Port*>(record_port.get()) : coordination_port.get();
  }
  std::string_view serves() const;  // kinds of requests, as /v1/models lists them
  // Returns `core`, wrapped in a ModelActor if there are several models.
  std::unique_ptr<Core> as_model_actor(std::unique_ptr<Core> core, ModelActorIds actor_ids);
};

// Reads a model's facts, vocabulary and prompt from its configuration and directory, without its
// weights. Sets the format that model.weights stands for. Throws what Box throws.
void describe_model(ServedModel& model, const ModelFamilies& families);

// Reads everything that is needed before the pool is mapped, in the order of `models`. Throws what
// Box throws.
std::vector<std::unique_ptr<ServedModel>> read_models(std::vector<NamedModel> models,
                                                      const ModelFamilies& families, NodeId node);

// Sets pool.page_tokens of each model, so that all models share pages of one size. The model with
// the largest tokens keeps its configured value; the others fit as many tokens as they can into the
// same bytes. Returns the bytes of a page.
std::size_t share_pages(std::vector<std::unique_ptr<ServedModel>>& models, const ModelFamilies& families);

// Returns the name context of the saved blocks of all models together. A different set of models
// gets a different context and finds none of these blocks. A model without a name differs, too: it
// counts block sizes in tokens, named models in pages.
NameContext shared_name_context(const std::vector<std::unique_ptr<ServedModel>>& models,
                                std::size_t page_bytes);

// Throws ConfigError if a node with several models uses settings that only a node with one model
// supports.
void reject_single_model_settings(const Config& box, const std::vector<NamedModel>& models, bool is_alone);

}  // namespace troupe::deploy
