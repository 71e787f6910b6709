#pragma once
// Names fields in refusals as the client's request does, where its form has other names than the message that
// it becomes: candidates[3] is documents[3] of a reranking. Pure.
#include <map>
#include <string>

#include "runtime/actor/refusal.h"

namespace troupe::server {

// A request's names for fields of its message; "" = those of the message.
struct OwnNames {
  std::string candidates = {};
  std::string history = {};  // list of the items of its own history
  std::string object = {};   // object with the other members of that history, such as "input"
  std::map<std::string, std::string> lists = {};  // further lists by their names in the message

  bool operator==(const OwnNames&) const = default;
};
// Returns the names of a history that stands in this field: as an object with its members, or as the list of
// its items.
OwnNames names_of_history(const std::string& field, bool is_object);

Refusal with_own_names(Refusal refusal, const OwnNames& names);

}  // namespace troupe::server
