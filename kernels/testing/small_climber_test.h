#pragma once
// Test helper: small Climber models and requests.
#include <random>

#include "kernels/climber/climber.h"

namespace troupe::kernels {

inline ClimberConfig small_climber_config() {
  ClimberConfig c{
      .items = 50, .actions = 6, .scenarios = 2, .hidden = 24, .heads = 3, .layers = 3, .intermediate = 40};
  c.towers = {{ClimberStrategy::recent, 12}, {ClimberStrategy::liked, 7}};
  c.experts = 3, c.expert_size = 10, c.head_size = 5;
  c.tasks = {"click", "like"};
  return c;
}

inline ClimberRequest random_climber_request(const ClimberConfig& c, std::mt19937& random, std::size_t events,
                                             std::size_t candidates) {
  ClimberRequest request;
  const auto item = [&] { return static_cast<Token>(1 + random() % c.items); };
  for (std::size_t i = 0; i < events; ++i) {
    request.items.push_back(item());
    request.actions.push_back(1 + random() % (c.actions - 1));
  }
  request.scenario = random() % c.scenarios;
  for (std::size_t i = 0; i < candidates; ++i) request.candidates.push_back(item());
  return request;
}

}  // namespace troupe::kernels
