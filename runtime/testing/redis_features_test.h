#pragma once
// Test helper for RedisFeaturePort: a router's port whose answers are short texts.
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/block_name.h"
#include "runtime/redis/redis_features.h"
#include "runtime/testing/redis_test_server.h"

namespace troupe::redis_test {

inline const FeatureLimits limits{
    .vocabulary = 100'000, .item_tokens_max = 8, .history_events_max = 5, .items_max = 1'000};

inline BlockName name_item(std::span<const Token> tokens) {
  return block_name({"m", "l"}, "", tokens, 3, {});
}

inline PutItem item(const std::string& id, Token token) { return {0, id, "title", {token}, 9}; }
inline PutUser user(const std::string& id, Token token) { return {0, "t", id, {}, {token}}; }
inline PutUser history(const std::string& id, std::vector<std::string> items) {
  return {0, "t", id, std::move(items)};
}

// A router's port, with its answers as text.
struct Router {
  RedisFeaturePort port;
  explicit Router(RedisFeatureOptions options, const FeatureLimits& l = limits)
      : port(std::move(options), l, name_item) {}

  // Returns e.g. "c3 ann=7 a=5 b=-" or "unavailable features_unavailable".
  std::string find(const std::string& of, const std::vector<std::string>& items) {
    const JobResult result = port.run(FindFeatures{"t", of, items}, 0);
    if (const auto* refusal = std::get_if<Refusal>(&result)) return code(*refusal);
    const auto& found = std::get<Features>(result);
    std::string text = found.catalog->version();
    if (!of.empty()) text += " " + of + "=" + (found.user ? token(found.user->tokens) : "-");
    return text + reported(found, items);
  }
  // Returns e.g. "3" or "not_found unknown_item".
  std::string write(auto what) {
    const JobResult result = port.run(Write{std::move(what)}, 0);
    if (const auto* refusal = std::get_if<Refusal>(&result)) return code(*refusal);
    return std::to_string(std::get<WriteResult>(result).version);
  }
  std::string list() {
    const JobResult result = port.run(ListItems{0, 100}, 0);
    if (const auto* refusal = std::get_if<Refusal>(&result)) return code(*refusal);
    const auto& list = std::get<ItemList>(result);
    std::set<std::string_view> ids;  // routers number items in the order in which they learn of them
    for (const ItemNumber one : list.items) ids.insert(list.catalog->item(one).id);
    std::string text;
    for (const std::string_view id : ids) text += id;
    return text;
  }
  // Returns e.g. " a=5 b=-".
  static std::string reported(const Features& found, const std::vector<std::string>& ids) {
    std::string text;
    for (std::size_t i = 0; i < ids.size(); ++i)
      text += " " + ids[i] + "=" +
              (found.items[i] != no_item ? token(found.catalog->item(found.items[i]).tokens) : "-");
    return text;
  }
  static std::string token(std::span<const Token> tokens) {
    return tokens.empty() ? "none" : std::to_string(tokens[0]);
  }
  static std::string code(const Refusal& refusal) {
    return std::string(name_of(refusal.kind)) + " " + refusal.code;
  }
};

inline const std::string away = "unavailable features_unavailable", unknown = "unavailable outcome_unknown";

inline RedisFeatureOptions options_at(const RedisAddress& address, WhenAway when_away = WhenAway::refuse) {
  return {.address = address,
          .time_limit = std::chrono::seconds(2),
          .reconnect_pause = std::chrono::milliseconds(0),
          .when_away = when_away,
          .page_items = 4};
}

}  // namespace troupe::redis_test
