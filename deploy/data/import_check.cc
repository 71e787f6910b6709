// Checks the files of an import before anything is stored: rows that occur twice, and histories
// with items that are in no catalog.
#include "deploy/data/import_check.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "runtime/wire/json_text.h"

namespace troupe::deploy {
namespace {

constexpr std::size_t listed_items = 5, quoted_bytes_max = 60;

std::string in_quotes(const std::string& id) {
  std::string text;
  append_json_string(text, std::string_view(id).substr(0, quoted_bytes_max));
  return text;
}

template <class Row>
void refuse_ids_twice(const DataRows<Row>& data, const char* kind, std::string Row::*id) {
  std::unordered_map<std::string_view, std::size_t> first;
  for (std::size_t i = 0; i < data.rows.size(); ++i) {
    const auto [at, is_new] = first.try_emplace(data.rows[i].*id, i);
    if (!is_new)
      throw ImportError(data.where(i) + ": " + kind + " " + in_quotes(data.rows[i].*id) + " is on line " +
                        std::to_string(data.lines[at->second]) + " already; expected each " + kind + " once");
  }
}

std::string count_of(std::uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string extent_of(const UnknownItemEvents& unknown) {
  return count_of(unknown.events, "event", "events") + " of " +
         count_of(unknown.items.size(), "item", "items");
}

// Removes the values whose events are of unknown items. `history`: the items of all events.
template <class Value>
void erase_unknown(std::vector<Value>& values, const std::vector<std::string>& history,
                   const KnowsItem& knows) {
  std::size_t event = 0;
  std::erase_if(values, [&](const Value&) { return !knows(history.at(event++)); });
}

}  // namespace

void reject_duplicates(const DataRows<PutItem>& items) { refuse_ids_twice(items, "item", &PutItem::item); }
void reject_duplicates(const DataRows<PutUser>& users) { refuse_ids_twice(users, "user", &PutUser::user); }

UnknownItemEvents find_unknown(const DataRows<PutUser>& users, const KnowsItem& knows) {
  UnknownItemEvents unknown;
  for (std::size_t i = 0; i < users.rows.size(); ++i) {
    const std::vector<std::string>& history = users.rows[i].history;
    const std::uint64_t before = unknown.events;
    for (std::size_t k = 0; k < history.size(); ++k) {
      if (knows(history[k])) continue;
      if (unknown.events++ == 0) {
        unknown.first = users.where_event(i, k);
        unknown.first_item = history[k];
      }
      ++unknown.items[history[k]];
    }
    unknown.histories += unknown.events > before;
  }
  return unknown;
}

PutUser known_part(PutUser user, const KnowsItem& knows) {
  for (Feature& feature : user.features) erase_unknown(feature.values, user.history, knows);
  erase_unknown(user.event_ids, user.history, knows);
  std::erase_if(user.history, [&](const std::string& item) { return !knows(item); });
  return user;
}

void drop_unknown(DataRows<PutUser>& users, const KnowsItem& knows) {
  for (std::size_t i = 0; i < users.rows.size(); ++i) {
    if (!users.event_lines.empty()) erase_unknown(users.event_lines[i], users.rows[i].history, knows);
    users.rows[i] = known_part(std::move(users.rows[i]), knows);
  }
}

void reject_unknown_items(const UnknownItemEvents& unknown) {
  if (unknown.events == 0) return;
  throw ImportError(
      unknown.first + ": item " + in_quotes(unknown.first_item) + " is not in the catalog (in total " +
      extent_of(unknown) + ", in " + count_of(unknown.histories, "history", "histories") +
      "); expected items of the catalog, or --skip-unknown to leave such events out. Nothing was imported");
}

std::string describe_left_out(const UnknownItemEvents& unknown) {
  std::vector<std::pair<std::string, std::uint64_t>> most(unknown.items.begin(), unknown.items.end());
  std::ranges::stable_sort(most, [](auto& a, auto& b) { return a.second > b.second; });
  std::string text = "left out " + extent_of(unknown) + " that the catalog does not have, in " +
                     count_of(unknown.histories, "history", "histories") + ": ";
  for (std::size_t i = 0; i < std::min(listed_items, most.size()); ++i)
    text += (i > 0 ? ", " : "") + in_quotes(most[i].first) + " (" +
            count_of(most[i].second, "time", "times") + ")";
  return text + (most.size() > listed_items ? ", …" : "");
}

std::string describe_shared_identifiers(const DataRows<PutItem>& items) {
  std::unordered_map<Token, std::size_t> uses;
  for (const PutItem& item : items.rows) ++uses[item.identifier];
  std::size_t shared = 0;
  for (const auto& [identifier, count] : uses)
    if (count > 1) shared += count;
  if (shared == 0) return "";
  return "warning: " + std::to_string(shared) + " of " + count_of(items.rows.size(), "item", "items") +
         " share their identifier token with another item, so that they always get the same score; expected "
         "a token <item_…> of the model's vocab.json for each item. A model that generates items token by "
         "token has no such tokens and cannot rank these items";
}

}  // namespace troupe::deploy
