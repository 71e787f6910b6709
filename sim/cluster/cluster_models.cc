// Builds the actors of several models in the simulated cluster, and the ModelActors between them
// and the hosts.
#include "runtime/host/model_actor.h"
#include "sim/cluster/cluster.h"
#include "sim/world/toy_model.h"

namespace troupe::sim {
namespace {

// Computes like the toy decoder, but the values of one family are useless to the other.
class OtherToy final : public ToyFamily {
 public:
  SegmentValue value_of(std::uint64_t model_key, std::span<const Token> tokens, std::int32_t start,
                        std::vector<SegmentValue>& seen) const override {
    return toy_decoder().value_of(mix(model_key, 0x07e4), tokens, start + 1, seen);
  }
  ScoreRow logits_of(const SegmentValue& value, std::uint32_t offset,
                     std::span<const Token> rows) const override {
    return toy_decoder().logits_of(value, offset + 1, rows);
  }
};

}  // namespace

std::vector<const router::RouterCore*> Node::routers() const {
  std::vector<const router::RouterCore*> all;
  if (router) all.push_back(router);
  for (const AdditionalModel& other : others)
    if (other.router) all.push_back(other.router);
  return all;
}

std::vector<const actors::InferenceCore*> Node::inferences() const {
  std::vector<const actors::InferenceCore*> all;
  if (inference) all.push_back(inference);
  for (const AdditionalModel& other : others)
    if (other.inference) all.push_back(other.inference);
  return all;
}

const ToyFamily& Cluster::family(std::uint32_t model) const {
  static const OtherToy other;
  if (model % 2 == 1) return other;
  return scenario_.family ? *scenario_.family : toy_decoder();
}

const std::string& Cluster::first_version(std::uint32_t model) const {
  return model == 0 ? names_.model_version : other_versions_.at(model - 1);
}

std::string Cluster::own_keys(std::uint32_t model) const {
  return scenario_.models > 1 ? "model/" + name_of_model(model) + "/" : "";
}

std::vector<NodeId> Cluster::numbers(const std::vector<NodeId>& nodes) const {
  std::vector<NodeId> numbers;
  for (const NodeId node : nodes)
    for (std::uint32_t model = 0; model < scenario_.models; ++model)
      numbers.push_back(actor_ids().number(node, model));
  return numbers;
}

std::unique_ptr<Core> Cluster::wrap_for_model(std::unique_ptr<Core> core, std::uint32_t model) const {
  if (scenario_.models <= 1) return core;
  return std::make_unique<ModelActor>(
      std::move(core),
      ModelActorConfig{name_of_model(model), model, actor_ids(), scenario_.page_tokens, nullptr});
}

}  // namespace troupe::sim
