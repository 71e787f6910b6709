#pragma once
// What a box has of each model that it serves: what is known of the model, the profiles and items that are
// asked about, and what its router and its inference worker work with. The pool, saved blocks and the hard
// state are the box's.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/models/families.h"
#include "deploy/node/coordinating_port.h"
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

// A knob that has no default. Throws ConfigError if it is empty.
std::string required_text(const Config& config, const char* knob);

struct ServedModel {
  std::string name;         // ""; the box has one, and nobody needs to name it
  Config config;            // its own, where there are several
  std::uint32_t place = 0;  // in the list of models
  NodeId number = 1;        // of its router and its inference worker here (runtime/actor/seat.h)
  ModelFacts facts;
  NameContext names;
  kernels::Vocabulary vocabulary;
  std::unique_ptr<const Tokenizer> tokenizer;  // null: the model has none
  PromptForm prompt;
  std::shared_ptr<const kernels::Prototypes> prototypes;  // null: the model has none
  OpenedModel opened;                                     // until a worker has it
  std::unique_ptr<Store>
      store;  // of several: its profiles and items; null: they are in the box's, or in a Redis
  std::unique_ptr<FeatureStore> features;
  std::unique_ptr<actors::ComputePort> compute;
  std::unique_ptr<CoordinatingPort> router_port;
  MetricRegistry metrics;  // of several: what its router and its inference worker count

  server::ModelText text() const { return {&vocabulary, tokenizer.get(), &prompt}; }
  std::string_view serves() const;  // kinds of requests, as /v1/models lists them
  // `core`, or what stands between it and the others where there are several.
  std::unique_ptr<Core> seated(std::unique_ptr<Core> core, Seats seats);
};

// Reads what its configuration and its directory say of a model, without its weights: facts, vocabulary and
// prompt. Throws as Box does.
void describe_model(ServedModel& model, const Families& families);

// Reads all that is to be known before a pool is mapped, in the order of `models`. Throws as Box does.
std::vector<std::unique_ptr<ServedModel>> read_models(std::vector<NamedModel> models,
                                                      const Families& families, NodeId node);

// Of the pages that models have together: a model whose tokens are smaller has more of them in a page, as
// many as fit. Sets pool.page_tokens of each, which the configuration has for the one with the largest
// tokens. The bytes of a page.
std::size_t share_pages(std::vector<std::unique_ptr<ServedModel>>& models, const Families& families);

// Under which saved blocks of all of them are kept: those of another set of models are none of theirs. Nor
// are those of a model that had no name, for they say in tokens what these say in pages.
NameContext names_of_all(const std::vector<std::unique_ptr<ServedModel>>& models, std::size_t page_bytes);

// Throws ConfigError where a box or a node of a cluster with several models is asked for what only one can
// have.
void refuse_for_several(const Config& box, const std::vector<NamedModel>& models, bool is_alone);

}  // namespace troupe::deploy
