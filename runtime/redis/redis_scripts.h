#pragma once
// Defines the data in Redis, and the scripts that read and write it. Each script is one atomic
// step; its replies are checked for form and range before they are used.
//
// - <prefix>meta: hash. origin: a random text that identifies this data; catalog, profiles: last
//   versions written; trimmed: version up to which the log may lack deletions; made_for: the model of
//   these rows (features/made_for.h).
// - <prefix>items: hash, item id → its record (store_rows.h).
// - <prefix>log: zset, item id → catalog version that last wrote or deleted it. It gives the
//   changes since any version, in order, each item once.
// - <prefix>gone: zset, the deleted items of the log; the oldest are dropped when there are too
//   many.
// - <prefix>user:<…>: string, "<version> " and the record of a profile.
//
// Versions are stored beside the records, not inside: a script assigns the version, but only
// this program can compute the record's checksum.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/actor/ports.h"
#include "runtime/redis/redis_connection.h"

namespace troupe {

std::vector<std::string> redis_scripts();  // script texts, for the server's cache

// Builds the names of keys. Users' keys may hold any bytes.
class RedisKeys {
 public:
  explicit RedisKeys(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string user(std::string_view user_key) const;
  // Returns the command up to the first argument.
  RedisCommand call(const std::string& sha, const std::string& user) const;
  std::string meta() const { return prefix_ + "meta"; }

 private:
  const std::string prefix_;
};

// Asks for at most `items` changes after `after` from the log. `base`: version since which the
// caller has seen every deletion. If the origin differs, or `base` is too new or too old, the page
// starts at 0. `full`: a page of `items` changes is wanted, because the caller reads on. Otherwise the
// reply only says that there are as many, so that callers who leave the reading to another one do not
// transfer a page each.
struct PageQuestion {
  std::string origin;
  std::uint64_t base = 0, after = 0;
  std::uint32_t items = 0;
  std::string user;  // key from user_key(); "" = none
  bool full = false;
};
struct CatalogPage {
  struct Entry {
    std::string id;
    std::uint64_t version = 0;
    std::optional<std::string> record;  // nullopt: deleted
  };
  std::string origin;
  // after: start of the page; version: the catalog's at this point
  std::uint64_t after = 0, version = 0;
  std::vector<Entry> entries;       // rising versions in (after, version]
  bool many = false;                // there are `items` changes or more, and none of them is here
  std::optional<std::string> user;  // the user's row, from the same point
  std::uint64_t profiles = 0;       // version of the profile written last
  std::string made_for;             // "" = no note
};
RedisCommand ask_page(const RedisKeys& keys, const PageQuestion& question);
std::optional<CatalogPage> read_page(RedisReply& reply, const PageQuestion& question);

// Asks for single items, and for a user's row, from one point. `user`: as of PageQuestion.
struct ItemQuestion {
  std::string user;
  std::vector<std::string> items;
};
struct ItemPage {
  struct Row {
    std::optional<std::string> record;  // nullopt: there is no such item
    std::uint64_t version = 0;          // that wrote it
  };
  std::string origin;
  std::uint64_t version = 0;        // the catalog's at this point
  std::vector<Row> rows;            // parallel to ItemQuestion::items
  std::optional<std::string> user;  // the user's row, from the same point
  std::uint64_t profiles = 0;       // version of the profile written last
  std::string made_for;             // "" = no note
  std::uint64_t items = 0;          // in the catalog
};
RedisCommand ask_items(const RedisKeys& keys, const ItemQuestion& question);
std::optional<ItemPage> read_items(RedisReply& reply, const ItemQuestion& question);

// Splits a user's row into version and record; nullopt if it has another form.
std::optional<std::pair<std::uint64_t, std::string_view>> split_user_row(std::string_view row);

// An item of a history, and the version in which it was read.
struct HistoryItem {
  std::string id;
  std::uint64_t version = 0;
};
struct UserDraft {
  std::string record, origin;
  std::uint64_t catalog = 0;
  std::vector<HistoryItem> seen;
  Condition condition;
};
// Writes nothing if an item of the draft has another version now. `nonce` becomes the origin if
// there is none. The new version is above `floor`, whatever the store has lost.
RedisCommand ask_put_user(const RedisKeys& keys, const std::string& nonce, const std::string& user,
                          const UserDraft& draft, std::uint64_t floor);
RedisCommand ask_delete_user(const RedisKeys& keys, const std::string& user, std::uint64_t floor,
                             const Condition& condition = {});
RedisCommand ask_put_item(const RedisKeys& keys, const std::string& nonce, const std::string& item,
                          const std::string& record, std::uint64_t items_max, std::uint64_t floor,
                          const Condition& condition = {});
RedisCommand ask_delete_item(const RedisKeys& keys, const std::string& item, std::uint64_t gone_max,
                             std::uint64_t floor, const Condition& condition = {});

struct WriteOutcome {
  // changed: items of the history changed; unmet: the condition does not hold.
  enum class What : std::uint8_t { written, missing, full, changed, unmet } what = What::written;
  std::uint64_t version = 0;  // written: the new version; unmet: the stored version, 0 = none
};
std::optional<WriteOutcome> read_outcome(const RedisReply& reply);

}  // namespace troupe
