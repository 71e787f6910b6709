#pragma once
// Replies that a stopping process receives from actors: which actors have drained and, if the node
// leaves its cluster for good, whether the routers have migrated its item blocks.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/actor/coordination.h"
#include "runtime/actor/messages.h"

namespace troupe::deploy {

// first id of the stopping process; above all request ids of the HTTP server
inline constexpr RequestId first_own_id = RequestId{1} << 63;

// Returns the model's name; "" for an unnamed model or an actor of all models.
inline std::string model_of(const StatusReply& reply) {
  const auto field = std::ranges::find(reply.fields, "model", &StatusField::name);
  return field == reply.fields.end() ? "" : field->value;
}

// Collects status replies to the stopping process; take() returns false for replies that belong to
// clients.
class DrainReports {
 public:
  bool take(const Message& answer) {
    const auto* reply = std::get_if<StatusReply>(&answer);
    if (!reply || reply->id < first_own_id) return false;
    const std::lock_guard lock(mutex_);
    for (const StatusField& field : reply->fields)
      if (field.name == "drained" && field.value == "yes") drained_.emplace(reply->role, model_of(*reply));
    note_migrated(*reply);
    return true;
  }
  // True if every awaited router, and at least one, knows the members at revision `since` or later
  // and reports no item block of these models missing from its assigned workers.
  bool handed_on(std::span<const NodeId> routers, const std::vector<std::string>& models, Revision since,
                 const std::function<bool(NodeId)>& is_awaited) {
    const std::lock_guard lock(mutex_);
    const auto said = [&](NodeId router) {
      return std::ranges::all_of(models, [&](const std::string& model) {
        const auto known = migrated_.find({router, model});
        return known != migrated_.end() && known->second >= since;
      });
    };
    return std::ranges::any_of(routers, said) &&
           std::ranges::all_of(routers, [&](NodeId router) { return !is_awaited(router) || said(router); });
  }
  bool have(Role role, const std::string& model) {
    const std::lock_guard lock(mutex_);
    return drained_.contains({role, model});
  }

  // Last report of a router of one model about the migration of item blocks.
  struct RouterReport {
    bool heard = false, migrated = false;  // migrated: with the members at `since` or later
    std::uint64_t blocks = 0, items = 0;
    std::vector<NodeId> awaited;
  };
  RouterReport report_of(NodeId router, const std::string& model, Revision since) {
    const std::lock_guard lock(mutex_);
    const auto known = reported_.find({router, model});
    RouterReport report = known == reported_.end() ? RouterReport{} : known->second;
    const auto migrated = migrated_.find({router, model});
    report.migrated = migrated != migrated_.end() && migrated->second >= since;
    return report;
  }
  struct UserBlocks {
    std::uint64_t all = 0, open = 0;  // of this node's KV-cache worker; open: not migrated yet
  };
  UserBlocks user_blocks() {
    const std::lock_guard lock(mutex_);
    return user_blocks_;
  }

 private:
  static std::uint64_t number_in(std::string_view text) {
    std::uint64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }
  static std::vector<NodeId> nodes_in(std::string_view text) {
    std::vector<NodeId> nodes;
    while (!text.empty()) {
      const std::size_t blank = std::min(text.find(' '), text.size());
      nodes.push_back(static_cast<NodeId>(number_in(text.substr(0, blank))));
      text.remove_prefix(std::min(blank + 1, text.size()));
    }
    return nodes;
  }
  static std::string_view value_of(const StatusReply& reply, std::string_view name) {
    const auto field = std::ranges::find(reply.fields, name, &StatusField::name);
    return field == reply.fields.end() ? std::string_view() : std::string_view(field->value);
  }

  void note_migrated(const StatusReply& reply) {
    const std::string_view migrated = value_of(reply, "handed_on");
    const std::pair router{reply.node, model_of(reply)};
    if (migrated == "yes")
      migrated_[router] = number_in(value_of(reply, "members_epoch"));
    else if (!migrated.empty())
      migrated_.erase(router);  // it has found more to migrate
    if (!migrated.empty())
      reported_[router] = {.heard = true,
                           .blocks = number_in(value_of(reply, "item_blocks_to_copy")),
                           .items = number_in(value_of(reply, "items_looked_up")),
                           .awaited = nodes_in(value_of(reply, "awaited_workers"))};
    if (reply.role != Role::kv_worker || value_of(reply, "users_blocks").empty()) return;
    user_blocks_.all = user_blocks_.open = number_in(value_of(reply, "users_blocks"));
    for (const char* ended :
         {"users_blocks_handed_on", "users_blocks_held_elsewhere", "users_blocks_left_behind"})
      user_blocks_.open -= std::min(user_blocks_.open, number_in(value_of(reply, ended)));
  }

  std::mutex mutex_;
  std::set<std::pair<Role, std::string>> drained_;  // role and model name ("" = unnamed)
  // by router and model: epoch of the members it reported
  std::map<std::pair<NodeId, std::string>, Revision> migrated_;
  std::map<std::pair<NodeId, std::string>, RouterReport> reported_;
  UserBlocks user_blocks_;
};

}  // namespace troupe::deploy
