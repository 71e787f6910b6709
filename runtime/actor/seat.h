#pragma once
// Where several models have a router and an inference worker each on a node, each of these actors has a
// number of its own in addresses, which says the node and the model's place in the list of models. That list
// is the same in all processes of a cluster. The actors of the first model, and those of all models together,
// have their node's number.
#include <cstdint>

#include "runtime/actor/identity.h"

namespace troupe {

// Of whom each model has its own.
constexpr bool is_of_model(Role role) { return role == Role::router || role == Role::inference_worker; }

struct Seats {
  static constexpr NodeId nodes_max = 0xFFFF;  // the highest number of a node where there are several models

  std::uint32_t models = 1;

  constexpr NodeId number(NodeId node, std::uint32_t model) const { return node + model * (nodes_max + 1); }
  // 0: nobody has that number.
  constexpr NodeId node_of(NodeId number) const {
    if (models <= 1) return number;
    return model_of(number) < models ? number % (nodes_max + 1) : 0;
  }
  constexpr std::uint32_t model_of(NodeId number) const { return models <= 1 ? 0 : number / (nodes_max + 1); }
};

}  // namespace troupe
