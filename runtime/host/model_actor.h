#pragma once
// An actor of one model among several of a node, alone or of a cluster. Each model has a router and an
// inference worker of its own; the KV-cache worker, the cache-meta and the allocator agent, and with them the
// pool, are the node's. This stands between such an actor's core and its host, so that neither the core nor
// those who serve all models know that there are others:
//   - the core says a node's number where its model's router or worker there is meant; they have numbers of
//   their own (seat.h)
//   - users and items of two models may have the same ids: an owner of blocks that leaves the core has its
//   model's name
//     before it. Names of blocks are hashes of model and layout, and need nothing
//   - tokens of two models take different room: the pool counts in pages, and so does what is said of blocks
//   - what the core counts is its model's; its log lines and its status name the model.
// It decides nothing, and keeps nothing between two steps.
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/actor/core.h"
#include "runtime/actor/seat.h"

namespace troupe {

struct ModelSeat {
  std::string model;                  // its name
  std::uint32_t place = 0;            // in the list of models
  Seats seats;                        // of all models, on all nodes
  std::uint32_t page_tokens = 1;      // of the model, that a page holds
  MetricRegistry* metrics = nullptr;  // of the model; outlives the actor. Null: all is counted by the host
};

class ModelActor final : public Core {
 public:
  ModelActor(std::unique_ptr<Core> core, ModelSeat seat) : core_(std::move(core)), seat_(std::move(seat)) {}
  void step(Instant now, const Event& event, Effects& effects) override;

 private:
  void pass(Effects::Effect effect, Effects& effects) const;
  void translate(Message& message) const;
  void put_owner(std::string& owner) const;
  std::uint32_t pages_of(std::uint32_t tokens) const;
  NodeId number_at(NodeId node) const { return seat_.seats.number(node, seat_.place); }

  const std::unique_ptr<Core> core_;
  const ModelSeat seat_;
};

}  // namespace troupe
