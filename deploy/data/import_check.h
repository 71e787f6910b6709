#pragma once
// What an import looks at before it stores anything: rows that come twice, and histories with items that no
// catalog has.
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "deploy/data/dataset.h"

namespace troupe::deploy {

using KnowsItem = std::function<bool(const std::string& item)>;

// Throw ImportError that names the file, both lines, and what is there twice.
void refuse_twice(const DataRows<PutItem>& items);
void refuse_twice(const DataRows<PutUser>& users);

// Events of items that are not known.
struct UnknownEvents {
  std::uint64_t events = 0, histories = 0;
  std::map<std::string, std::uint64_t> items;  // with their events
  std::string first;                           // where the first one stands: "users.jsonl:101: history[0]"
  std::string first_item;
};
UnknownEvents find_unknown(const DataRows<PutUser>& users, const KnowsItem& knows);
void drop_unknown(DataRows<PutUser>& users, const KnowsItem& knows);
void refuse_unknown(const UnknownEvents& unknown);  // throws ImportError if there are any
// "left out 12 events of 3 items that the catalog does not have, in 5 histories: camp-9999 (7 times), …"
std::string tell_left_out(const UnknownEvents& unknown);

// Items whose score would be that of another one, because both are read at one row of the vocabulary: "" or a
// warning.
std::string tell_shared_identifiers(const DataRows<PutItem>& items);

}  // namespace troupe::deploy
