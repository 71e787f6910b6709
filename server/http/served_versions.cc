// Reads fields of routers' status.
#include "server/http/served_versions.h"

#include <algorithm>
#include <iterator>

namespace troupe::server {

std::string field_of(const StatusReply& reply, std::string_view name) {
  const auto at = std::ranges::find(reply.fields, name, &StatusField::name);
  return at == reply.fields.end() ? "" : at->value;
}

std::vector<std::vector<std::string>> named_versions(const StatusReply& router) {
  std::vector<std::vector<std::string>> versions;
  const auto add = [&](std::string_view version, std::string_view names) {
    versions.emplace_back();
    const std::string all = field_of(router, version) + ", " + field_of(router, names);
    for (std::size_t at = 0, end = 0; at < all.size(); at = end + 2) {
      end = std::min(all.find(", ", at), all.size());
      versions.back().push_back(all.substr(at, end - at));
    }
  };
  add("model_version", "model_version_name");
  if (!field_of(router, "next_share").empty()) add("next_model", "next_model_name");
  return versions;
}

std::vector<std::string> versions_of(const StatusReply& router) {
  std::vector<std::string> all;
  for (auto& names : named_versions(router)) std::ranges::move(names, std::back_inserter(all));
  return all;
}

}  // namespace troupe::server
