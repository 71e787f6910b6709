#pragma once
// Adapter of an actor that belongs to one of several models of a node, with or without a cluster.
// Each model has its own router and inference worker; the node's KV-cache worker, cache-meta,
// allocator agent and pool serve all models. The adapter sits between such a core and its host, so
// that neither the core nor the shared actors know of several models:
//
// - Numbers: the core uses a node's number for its model's router or worker there; outside, they
//   have numbers of their own (model_actor_ids.h).
// - Owners: users and items of two models may have the same ids, so the model's name is put before
//   the owner of blocks. Names of blocks are hashes of model and layout and stay unchanged.
// - Sizes: tokens of two models take different amounts of memory, so messages about blocks count
//   pages, as the pool does.
// - Metrics, log lines and status: the core's counts are recorded for its model; log lines and
//   status name the model.
//
// The adapter decides nothing and keeps no state between two steps.
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/actor/core.h"
#include "runtime/actor/model_actor_ids.h"

namespace troupe {

struct ModelActorConfig {
  std::string model;              // name of the model
  std::uint32_t index = 0;        // index in the list of models
  ModelActorIds actor_ids;        // actor ids of all models, on all nodes
  std::uint32_t page_tokens = 1;  // tokens of the model per page
  // Metrics of the model; must outlive the actor. Null = the host counts everything.
  MetricRegistry* metrics = nullptr;
};

class ModelActor final : public Core {
 public:
  ModelActor(std::unique_ptr<Core> core, ModelActorConfig config)
      : core_(std::move(core)), config_(std::move(config)) {}
  void step(Instant now, Event&& event, Effects& effects) override;

 private:
  void pass(Effects::Effect effect, Effects& effects) const;
  void translate(Message& message) const;
  void put_owner(std::string& owner) const;
  std::uint32_t pages_of(std::uint32_t tokens) const;
  NodeId number_at(NodeId node) const { return config_.actor_ids.number(node, config_.index); }

  const std::unique_ptr<Core> core_;
  const ModelActorConfig config_;
};

}  // namespace troupe
