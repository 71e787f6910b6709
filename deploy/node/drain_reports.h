#pragma once
// Replies that a stopping process receives from actors: which actors have drained and, if the node
// leaves its cluster for good, whether the routers have migrated its item blocks.
#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
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

 private:
  void note_migrated(const StatusReply& reply) {
    Revision epoch = 0;
    for (const StatusField& field : reply.fields) {
      if (field.name == "members_epoch")
        std::from_chars(field.value.data(), field.value.data() + field.value.size(), epoch);
      if (field.name != "handed_on") continue;
      if (field.value == "yes")
        migrated_[{reply.node, model_of(reply)}] = epoch;
      else
        migrated_.erase({reply.node, model_of(reply)});  // it has found more to migrate
    }
  }

  std::mutex mutex_;
  std::set<std::pair<Role, std::string>> drained_;  // role and model name ("" = unnamed)
  // by router and model: epoch of the members it reported
  std::map<std::pair<NodeId, std::string>, Revision> migrated_;
};

}  // namespace troupe::deploy
