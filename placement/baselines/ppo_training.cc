// Trains HLEM's base policy by PPO, a reinforcement learning method, before it serves.
#include "placement/baselines/ppo_training.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/base/hash.h"

namespace troupe::placement {
namespace {

constexpr std::size_t actions = alpha_steps.size();
using Chances = std::array<float, actions>;

Chances chances_of(std::span<const float> outputs) {
  Chances chances;
  const float most = *std::ranges::max_element(outputs);
  float sum = 0;
  for (std::size_t a = 0; a < actions; ++a) sum += chances[a] = std::exp(outputs[a] - most);
  for (float& chance : chances) chance /= sum;
  return chances;
}

struct PpoStep {
  std::array<float, state_values> inputs;
  std::size_t action = 0;
  float chance = 0, value = 0, reward = 0, advantage = 0, worth = 0;
};

class Trainer {
 public:
  Trainer(SplitEnvironment& game, const PpoOptions& options)
      : game_(game),
        options_(options),
        state_(spread(options.seed)),
        actor_(base_network()),
        critic_({state_values, 64, 128, 1}) {
    actor_.draw(options.seed * 2, 0.01F);
    critic_.draw(options.seed * 2 + 1, 1);
  }

  Mlp train() {
    for (std::uint32_t episode = 0; episode < options_.episodes;) {
      steps_.clear();
      for (std::uint32_t i = 0; i < options_.batch_episodes && episode < options_.episodes; ++i)
        play(episode++);
      learn();
      if (options_.on_batch) options_.on_batch(episode, mean_reward());
    }
    return actor_;
  }

 private:
  double unit() { return static_cast<double>((state_ = spread(state_)) >> 11) * 0x1p-53; }

  double mean_reward() const {
    double sum = 0;
    for (const PpoStep& move : steps_) sum += move.reward;
    return sum / std::max<double>(1, static_cast<double>(steps_.size()));
  }

  std::size_t draw(const Chances& chances) {
    double left = unit();
    for (std::size_t a = 0; a + 1 < actions; ++a)
      if ((left -= chances[a]) < 0) return a;
    return actions - 1;
  }

  void play(std::uint32_t episode) {
    SplitState state = game_.begin(options_.seed * 1'000'003 + episode);
    const std::size_t first = steps_.size();
    for (std::uint32_t w = 0; w < options_.windows; ++w) {
      PpoStep move{.inputs = inputs_of(state)};
      Chances outputs;
      actor_.run(move.inputs, outputs);
      const Chances chances = chances_of(outputs);
      move.action = draw(chances);
      move.chance = chances[move.action];
      critic_.run(move.inputs, std::span(&move.value, 1));
      state = game_.play(clip_alpha(state.alpha + alpha_steps[move.action]));
      move.reward = static_cast<float>(game_.reward());
      steps_.push_back(move);
    }
    weigh(first);
  }

  // Computes generalised advantages backwards from the last move. An episode's end is not terminal:
  // its last value continues.
  void weigh(std::size_t first) {
    float advantage = 0, next = steps_.back().value;
    for (std::size_t m = steps_.size(); m-- > first;) {
      PpoStep& move = steps_[m];
      const float surprise = move.reward + static_cast<float>(options_.discount) * next - move.value;
      advantage = surprise + static_cast<float>(options_.discount * options_.trace) * advantage;
      move.advantage = advantage;
      move.worth = advantage + move.value;
      next = move.value;
    }
  }

  void learn() {
    double sum = 0, squares = 0;
    for (const PpoStep& move : steps_) {
      sum += move.advantage;
      squares += move.advantage * move.advantage;
    }
    const double count = static_cast<double>(steps_.size()), mean = sum / count;
    const double deviation = std::sqrt(std::max(1e-12, squares / count - mean * mean));
    for (PpoStep& move : steps_) move.advantage = static_cast<float>((move.advantage - mean) / deviation);
    std::vector<std::uint32_t> order(steps_.size());
    std::iota(order.begin(), order.end(), 0);
    for (std::uint32_t epoch = 0; epoch < options_.epochs; ++epoch) {
      for (std::size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[(state_ = spread(state_)) % i]);
      for (std::size_t from = 0; from < order.size(); from += options_.batch)
        learn_batch(
            std::span(order).subspan(from, std::min<std::size_t>(options_.batch, order.size() - from)));
    }
  }

  void learn_batch(std::span<const std::uint32_t> batch) {
    for (const std::uint32_t m : batch) {
      const PpoStep& move = steps_[m];
      actor_.learn(move.inputs, [&](std::span<const float> outputs, std::span<float> slopes) {
        slope(move, outputs, slopes);
      });
      critic_.learn(move.inputs, [&](std::span<const float> outputs, std::span<float> slopes) {
        slopes[0] = outputs[0] - move.worth;
      });
    }
    actor_.step(options_.rate);
    critic_.step(3 * options_.rate);
  }

  // Adds the derivatives of the clipped objective and of the entropy, both to be maximized.
  void slope(const PpoStep& move, std::span<const float> outputs, std::span<float> slopes) const {
    const Chances chances = chances_of(outputs);
    const float ratio = chances[move.action] / move.chance, clip = static_cast<float>(options_.clip);
    const bool clipped = move.advantage > 0 ? ratio > 1 + clip : ratio < 1 - clip;
    float entropy = 0;
    for (const float chance : chances) entropy -= chance * std::log(chance + 1e-9F);
    for (std::size_t a = 0; a < actions; ++a) {
      const float chosen = (a == move.action ? 1.0F : 0.0F) - chances[a];
      slopes[a] = clipped ? 0 : -move.advantage * ratio * chosen;
      slopes[a] +=
          static_cast<float>(options_.entropy) * chances[a] * (std::log(chances[a] + 1e-9F) + entropy);
    }
  }

  SplitEnvironment& game_;
  PpoOptions options_;
  std::uint64_t state_;
  Mlp actor_, critic_;
  std::vector<PpoStep> steps_;
};

}  // namespace

Mlp train_ppo(SplitEnvironment& game, const PpoOptions& options) { return Trainer(game, options).train(); }

}  // namespace troupe::placement
