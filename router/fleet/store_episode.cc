// Tells for how long a store is away or refuses, and why.
#include "router/fleet/store_episode.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace troupe::router {
namespace {

constexpr std::size_t code_bytes_min = 3, code_bytes_max = 24;

// Returns the error code of Redis that ends the text: "… it answers with READONLY".
std::string_view code_at_end(std::string_view text) {
  constexpr std::string_view before = " with ";
  const std::size_t at = text.rfind(before);
  if (at == text.npos) return "";
  const std::string_view word = text.substr(at + before.size());
  const bool is_code = word.size() >= code_bytes_min && word.size() <= code_bytes_max &&
                       std::ranges::all_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
  return is_code ? word : "";
}

}  // namespace

std::string store_reason(const Refusal& refusal) {
  const std::string_view what = refusal.what;
  if (const std::string_view code = code_at_end(what); !code.empty()) return std::string(code);
  constexpr std::pair<std::string_view, const char*> words[] = {
      {"it is a replica", "replica"},      {"database space exceeded", "no_space"},
      {"no leader", "no_leader"},          {"auth", "login"},
      {"permission denied", "login"},      {"user name is empty", "login"},
      {"the store went back", "went_back"}};
  for (const auto& [word, reason] : words)
    if (what.find(word) != what.npos) return reason;
  for (const char* code :
       {"features_unavailable", "outcome_unknown", "coordination_unavailable", "coordination_away"})
    if (refusal.code == code) return "away";
  return refusal.code;
}

void StoreEpisode::note(Step step, const Refusal* refusal) {
  const bool fails = refusal && refusal->kind == RefusalKind::unavailable;
  const std::string before = std::exchange(reason_, fails ? store_reason(*refusal) : "");
  if (reason_ != before) {
    if (!before.empty()) step.effects.count(Metric::store_refuses, 0, store_ + "\t" + before);
    if (!reason_.empty()) step.effects.count(Metric::store_refuses, 1, store_ + "\t" + reason_);
    if (!before.empty() && !reason_.empty()) log_.changed();
  }
  if (!logs_) return;
  if (reason_.empty()) return log_.ended(step);
  log_.lasts(step, {{"reason", reason_}, {"why", refusal->what}});
}

}  // namespace troupe::router
