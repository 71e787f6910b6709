// Creates a split policy (what divides the pool between its areas) from its name in the settings,
// such as "static:0.4" or "marginal".
#include "placement/split/split_choice.h"

#include <charconv>
#include <optional>

#include "placement/split/bayes.h"
#include "placement/split/marginal.h"
#include "placement/split/pid.h"
#include "placement/split/smart_allocator.h"

namespace troupe::placement {
namespace {

constexpr std::string_view static_prefix = "static:";
constexpr std::string_view learned[] = {"trees", "ppo", "ppo+adapter", "smart"},
                           others[] = {"pid", "bayes", "marginal"};

std::optional<double> static_alpha(std::string_view name) {
  if (!name.starts_with(static_prefix)) return std::nullopt;
  const std::string_view text = name.substr(static_prefix.size());
  double alpha = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), alpha);
  if (error != std::errc() || end != text.data() + text.size() || !(alpha >= 0 && alpha <= 1))
    return std::nullopt;
  return alpha;
}

bool among(std::string_view name, std::span<const std::string_view> names) {
  for (const std::string_view one : names)
    if (one == name) return true;
  return false;
}

std::unique_ptr<SplitPolicy> make_learned(std::string_view name, const TrainedPolicies& trained) {
  if (name == "trees") return std::make_unique<TreesSplit>(trained.trees);
  if (name == "ppo") return std::make_unique<PpoSplit>(trained.base);
  return std::make_unique<SmartAllocator>(trained.base, SmartOptions{.recovers = name == "smart"});
}

}  // namespace

std::string split_names() {
  std::string names = "static:0..1";
  for (const std::string_view name : others) names += ", " + std::string(name);
  for (const std::string_view name : learned) names += ", " + std::string(name);
  return names;
}

bool knows_split(std::string_view name) {
  return static_alpha(name) || among(name, learned) || among(name, others);
}

bool learned_split(std::string_view name) { return among(name, learned); }

std::unique_ptr<SplitPolicy> make_split(std::string_view name, const SplitChoice& choice) {
  if (const auto alpha = static_alpha(name)) return std::make_unique<StaticSplit>(*alpha);
  if (learned_split(name)) return choice.trained ? make_learned(name, *choice.trained) : nullptr;
  if (name == "pid")
    return std::make_unique<PidSplit>(PidOptions{.kv_weight = choice.kv_us, .row_weight = choice.row_us});
  if (name == "bayes") return std::make_unique<BayesSplit>();
  if (name == "marginal")
    return std::make_unique<MarginalSplit>(MarginalOptions{.least = choice.least, .better = choice.better});
  return nullptr;
}

}  // namespace troupe::placement
