#pragma once
// Messages about profiles and the catalog: HTTP server → router, and the answers (serving.capnp).
// Part of messages.h.
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/plan.h"
#include "runtime/actor/identity.h"

namespace troupe {

using kernels::Token;

// A history is given as item ids (resolved to their tokens when it is written) or as tokens, not
// both. A Feature has one number per event of a user, under the name that the model gives it, e.g.
// "timestamps".
struct Feature {
  std::string name;
  std::vector<std::int64_t> values;
  bool operator==(const Feature&) const = default;
};

// State that a write expects. If it finds another one, it changes nothing and is refused (412
// `changed_meanwhile`).
struct Condition {
  bool absent = false;        // there must be no entry
  bool present = false;       // there must be an entry, of any version
  std::uint64_t version = 0;  // the entry must have this version; 0 = any
  bool operator==(const Condition&) const = default;
};

struct PutUser {
  RequestId id = 0;
  std::string tenant, user;
  std::vector<std::string> history;  // oldest first
  std::vector<Token> tokens;
  std::vector<Feature> features;  // one value per event, or per token where tokens are given
  // one per event, or empty; by it an event that is appended again is recognised
  std::vector<std::string> event_ids;
  Condition condition;
  bool operator==(const PutUser&) const = default;
};
// Appends events to a user's history, which need not exist; the newest that fit are kept. An event
// whose id is among the kept ones is skipped as known. Answered by Appended.
struct AppendEvents {
  RequestId id = 0;
  std::string tenant, user;
  std::vector<std::string> history;  // oldest first
  std::vector<Token> tokens;         // instead of `history`
  std::vector<Feature> features;
  std::vector<std::string> event_ids;  // one per event, or empty
  Condition condition;
  bool operator==(const AppendEvents&) const = default;
};
struct Appended {
  RequestId id = 0;
  std::uint64_t version = 0;   // of the profile
  std::uint32_t appended = 0;  // events of this request that were appended
  std::uint32_t repeated = 0;  // events that were known already
  std::uint32_t dropped = 0;   // oldest events dropped to make the others fit
  std::uint32_t events = 0;    // events that the profile has now
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
// Reads an entry as it was put. Answered by UserReply and ItemReply.
struct GetUser {
  RequestId id = 0;
  std::string tenant, user;
  bool operator==(const GetUser&) const = default;
};
struct UserReply {
  RequestId id = 0;
  std::string user;
  std::uint64_t version = 0;
  // item id of each event; "" = the event was put as tokens. Empty = all were
  std::vector<std::string> history;
  std::vector<Token> tokens;                // tokens of all events; empty if every event has its item
  std::vector<std::uint32_t> event_tokens;  // tokens per event; empty = one each
  std::vector<Feature> features;
  std::vector<std::string> event_ids;  // "" = the event has none; empty = no event has one
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
  std::uint64_t version = 0;  // catalog version that wrote it
  bool operator==(const ItemReply&) const = default;
};

}  // namespace troupe
