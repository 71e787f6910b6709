#pragma once
// What is in Redis, and the scripts that read and write it. Each script is one atomic step; its replies are
// checked for form and range before anything is believed.
//
//   <prefix>meta      hash    origin: a random text that names what is held here; catalog, profiles: the
//                             versions written last; trimmed: up to where deletions may be missing in the
//                             log; made_for: the model whose rows these are (features/made_for.h)
//   <prefix>items     hash    item id → its record (store_rows.h)
//   <prefix>log       zset    item id → the catalog version that wrote or deleted it last: what changed since
//                             any version, in order, each item once
//   <prefix>gone      zset    the deleted ones among those; the oldest are dropped when they are too many
//   <prefix>user:<…>  string  "<version> " and the record of a profile
//
// The versions stand beside the records and not inside: a script numbers what it writes, and only we can sum.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/actor/ports.h"
#include "runtime/redis/redis_connection.h"

namespace troupe {

std::vector<std::string> redis_scripts();  // their texts, for the server's cache

// Names of keys. Users' keys hold any bytes.
class RedisKeys {
 public:
  explicit RedisKeys(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string user(std::string_view user_key) const;
  RedisCommand call(const std::string& sha, const std::string& user) const;  // up to the first argument
  std::string meta() const { return prefix_ + "meta"; }

 private:
  const std::string prefix_;
};

// Of the log: what changed after `after`, at most `items`. `base`: the version since which the asker has seen
// every deletion. If it is of another origin, too new or too old, the page starts at 0.
struct PageQuestion {
  std::string origin;
  std::uint64_t base = 0, after = 0;
  std::uint32_t items = 0;
  std::string user;  // key, see user_key(); "": none
};
struct CatalogPage {
  struct Entry {
    std::string id;
    std::uint64_t version = 0;
    std::optional<std::string> record;  // absent: deleted
  };
  std::string origin;
  std::uint64_t after = 0, version = 0;  // where it starts; the catalog's at this point
  std::vector<Entry> entries;            // rising versions in (after, version]
  std::optional<std::string> user;       // the row, from the same point
  std::uint64_t profiles = 0;            // the version of the profile that was written last
  std::string made_for;                  // "": nothing is noted
};
RedisCommand ask_page(const RedisKeys& keys, const PageQuestion& question);
std::optional<CatalogPage> read_page(RedisReply& reply, const PageQuestion& question);

// Row of a user: absent if it is no number and record.
std::optional<std::pair<std::uint64_t, std::string_view>> split_user_row(std::string_view row);

// A user's row, ready to be written: its record, the items that it was made of, and when they stood so.
struct SeenItem {
  std::string id;
  std::uint64_t version = 0;
};
struct UserDraft {
  std::string record, origin;
  std::uint64_t catalog = 0;
  std::vector<SeenItem> seen;
  Condition condition;
};
// `nonce` becomes the origin if there is none yet. If an item of the draft has another version now, nothing
// is written. What is written has a version above `floor`, whatever the store has forgotten.
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
  // `changed`: items of the history have; `unmet`: the condition is not met by what is there.
  enum class What : std::uint8_t { written, missing, full, changed, unmet } what = What::written;
  std::uint64_t version = 0;  // when written; of what is there when unmet, 0: nothing
};
std::optional<WriteOutcome> read_outcome(const RedisReply& reply);

}  // namespace troupe
