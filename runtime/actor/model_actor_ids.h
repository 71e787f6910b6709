#pragma once
// Numbers of actors where one cluster serves several models. Each model then has a router and an
// inference worker of its own per node. Each of these actors has its own number in addresses, made
// of the node and the model's index in the list of models. That list is the same in all processes
// of a cluster. Actors of the first model, and actors that all models share, have their node's
// number.
#include <cstdint>

#include "runtime/actor/identity.h"

namespace troupe {

// Returns true for roles of which each model has its own actor.
constexpr bool is_of_model(Role role) { return role == Role::router || role == Role::inference_worker; }

struct ModelActorIds {
  static constexpr NodeId nodes_max = 0xFFFF;  // highest node number where there are several models

  std::uint32_t models = 1;

  constexpr NodeId number(NodeId node, std::uint32_t model) const { return node + model * (nodes_max + 1); }
  // Returns 0 if no actor has that number.
  constexpr NodeId node_of(NodeId number) const {
    if (models <= 1) return number;
    return model_of(number) < models ? number % (nodes_max + 1) : 0;
  }
  constexpr std::uint32_t model_of(NodeId number) const { return models <= 1 ? 0 : number / (nodes_max + 1); }
};

}  // namespace troupe
