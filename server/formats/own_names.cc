// Replaces the beginning of a refusal's field by the request's own name for it.
#include "server/formats/own_names.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "runtime/actor/row_rules.h"

namespace troupe::server {
namespace {

std::string own_name(std::string_view field, const OwnNames& names) {
  if (field == "candidates") return names.candidates;
  if (field == "history" && !names.history.empty()) return names.history;
  if (const auto list = names.lists.find(std::string(field)); list != names.lists.end()) return list->second;
  const bool is_member =
      field == "tokens" || std::ranges::find(event_feature_names, field) != std::end(event_feature_names);
  return is_member && !names.object.empty() ? names.object + "." + std::string(field) : "";
}

}  // namespace

OwnNames names_of_history(const std::string& field, bool is_object) {
  return {.history = is_object ? field + ".history" : field, .object = is_object ? field : ""};
}

Refusal with_own_names(Refusal refusal, const OwnNames& names) {
  const std::string field = refusal.where.substr(0, refusal.where.find_first_of("[."));
  const std::string own = own_name(field, names);
  if (own.empty()) return refusal;
  if (refusal.what.starts_with(refusal.where)) refusal.what.replace(0, field.size(), own);
  refusal.where.replace(0, field.size(), own);
  return refusal;
}

}  // namespace troupe::server
