#pragma once
// What is said of profiles and the catalog: door → router, and its answers (serving.capnp). Part of
// messages.h.
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/plan.h"
#include "runtime/actor/identity.h"

namespace troupe {

using kernels::Token;

// Profiles and catalog. A history is given as item ids (resolved to their tokens now) or as tokens, not both.
// Numbers of a user's events, one for each, under the name that the model's family has for them:
// "timestamps".
struct Feature {
  std::string name;
  std::vector<std::int64_t> values;
  bool operator==(const Feature&) const = default;
};

// What a write expects to find; else it changes nothing and is refused (412 `changed_meanwhile`).
struct Condition {
  bool absent = false;        // nothing
  bool present = false;       // anything
  std::uint64_t version = 0;  // this version; 0: whichever
  bool operator==(const Condition&) const = default;
};

struct PutUser {
  RequestId id = 0;
  std::string tenant, user;
  std::vector<std::string> history;  // oldest first
  std::vector<Token> tokens;
  std::vector<Feature> features;       // of the events, or of the tokens where these are given
  std::vector<std::string> event_ids;  // of the events, or none: by which one that is appended again is known
  Condition condition;
  bool operator==(const PutUser&) const = default;
};
// Events behind those that the user has, which need not be there; the newest that fit are kept. One whose id
// is among those that are kept is known already, and passed over. Answered by Appended.
struct AppendEvents {
  RequestId id = 0;
  std::string tenant, user;
  std::vector<std::string> history;  // oldest first
  std::vector<Token> tokens;         // instead
  std::vector<Feature> features;
  std::vector<std::string> event_ids;  // of all, or none
  Condition condition;
  bool operator==(const AppendEvents&) const = default;
};
struct Appended {
  RequestId id = 0;
  std::uint64_t version = 0;   // of the profile
  std::uint32_t appended = 0;  // of those that came
  std::uint32_t repeated = 0;  // that were known already
  std::uint32_t dropped = 0;   // the oldest, so that the others fit
  std::uint32_t events = 0;    // that the profile has now
  bool operator==(const Appended&) const = default;
};
struct DeleteUser {
  RequestId id = 0;
  std::string tenant, user;
  Condition condition;
  bool operator==(const DeleteUser&) const = default;
};
struct PutItem {
  RequestId id = 0;
  std::string item, title;
  std::vector<Token> tokens;
  Token identifier = -1;  // vocabulary row whose logit is the item's score
  Condition condition;
  bool operator==(const PutItem&) const = default;
};
struct DeleteItem {
  RequestId id = 0;
  std::string item;
  Condition condition;
  bool operator==(const DeleteItem&) const = default;
};
// What is stored, as it was put. Answered by UserReply and ItemReply.
struct GetUser {
  RequestId id = 0;
  std::string tenant, user;
  bool operator==(const GetUser&) const = default;
};
struct UserReply {
  RequestId id = 0;
  std::string user;
  std::uint64_t version = 0;
  std::vector<std::string> history;  // of each event its item; "": it was put as tokens. None: all were
  std::vector<Token> tokens;         // of all events, unless each has its item
  std::vector<std::uint32_t> event_tokens;  // how many each event has, unless it is one
  std::vector<Feature> features;
  std::vector<std::string> event_ids;  // "": it has none. None: none has
  bool operator==(const UserReply&) const = default;
};
struct GetItem {
  RequestId id = 0;
  std::string item;
  bool operator==(const GetItem&) const = default;
};
struct ItemReply {
  RequestId id = 0;
  std::string item, title;
  std::vector<Token> tokens;
  Token identifier = -1;
  std::uint64_t version = 0;  // of the catalog, that wrote it
  bool operator==(const ItemReply&) const = default;
};

}  // namespace troupe
