// Creates a split policy (what divides the pool between its areas) from its name in the settings,
// such as "static:0.4" or "marginal".
#include "placement/split/split_choice.h"

#include <charconv>
#include <optional>

#include "placement/split/marginal.h"
#include "placement/split/smart_allocator.h"

namespace troupe::placement {
namespace {

constexpr std::string_view static_prefix = "static:";

std::optional<double> static_alpha(std::string_view name) {
  if (!name.starts_with(static_prefix)) return std::nullopt;
  const std::string_view text = name.substr(static_prefix.size());
  double alpha = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), alpha);
  if (error != std::errc() || end != text.data() + text.size() || !(alpha >= 0 && alpha <= 1))
    return std::nullopt;
  return alpha;
}

}  // namespace

std::string split_names() { return "static:0..1, marginal, smart"; }

bool knows_split(std::string_view name) {
  return static_alpha(name) || name == "marginal" || learned_split(name);
}

bool learned_split(std::string_view name) { return name == "smart"; }

std::unique_ptr<SplitPolicy> make_split(std::string_view name, const SplitChoice& choice) {
  if (const auto alpha = static_alpha(name)) return std::make_unique<StaticSplit>(*alpha);
  if (name == "marginal")
    return std::make_unique<MarginalSplit>(MarginalOptions{.least = choice.least, .better = choice.better});
  if (learned_split(name) && choice.trained) return std::make_unique<SmartAllocator>(choice.trained->base);
  return nullptr;
}

}  // namespace troupe::placement
