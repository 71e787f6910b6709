#pragma once
// Checks an import before it stores anything: duplicate rows, and histories with items that no
// catalog has.
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "deploy/data/dataset.h"

namespace troupe::deploy {

using KnowsItem = std::function<bool(const std::string& item)>;

// Both throw ImportError that names the file, both lines and the duplicate.
void reject_duplicates(const DataRows<PutItem>& items);
void reject_duplicates(const DataRows<PutUser>& users);

// Events whose items are not in the catalog.
struct UnknownItemEvents {
  std::uint64_t events = 0, histories = 0;
  std::map<std::string, std::uint64_t> items;  // number of events by item
  std::string first;                           // position of the first one: "users.jsonl:101: history[0]"
  std::string first_item;
};
UnknownItemEvents find_unknown(const DataRows<PutUser>& users, const KnowsItem& knows);
PutUser known_part(PutUser user, const KnowsItem& knows);  // without events of other items
void drop_unknown(DataRows<PutUser>& users, const KnowsItem& knows);
void reject_unknown_items(const UnknownItemEvents& unknown);  // throws ImportError if there are any
// Returns a text such as "left out 12 events of 3 items that the catalog does not have, in 5
// histories: camp-9999 (7 times), …".
std::string describe_left_out(const UnknownItemEvents& unknown);

// Returns a warning if items share an identifier token and so always get the same score; "" if none
// do.
std::string describe_shared_identifiers(const DataRows<PutItem>& items);

}  // namespace troupe::deploy
