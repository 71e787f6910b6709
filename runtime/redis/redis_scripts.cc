// Contains the Lua scripts that read and write profiles and items in Redis, each as one atomic
// step, and the strict decoding of their replies.
#include "runtime/redis/redis_scripts.h"

#include <openssl/evp.h>

#include <array>
#include <charconv>

namespace troupe {
namespace {

using Kind = RedisReply::Kind;
using What = WriteOutcome::What;

// Lua counts in doubles, which are exact up to this number.
constexpr std::uint64_t version_max = std::uint64_t{1} << 53;

#define TROUPE_KEYS "local meta, items, log, gone, user = unpack(KEYS)\n"
#define TROUPE_MARK_ORIGIN "redis.call('HSETNX', meta, 'origin', ARGV[1])\n"
// Ensures that a store that lost its last writes, or all, does not reuse their versions. The jump
// is bounded by a plausible number of writes: a corrupted floor must not exhaust the versions.
#define TROUPE_NEXT_VERSION                                                         \
  "local function next_version(field, floor)\n"                                     \
  "  local last = tonumber(redis.call('HGET', meta, field) or 0)\n"                 \
  "  local lost = tonumber(floor) - last\n"                                         \
  "  if lost > 0 and lost < 1e12 then redis.call('HSET', meta, field, floor) end\n" \
  "  return redis.call('HINCRBY', meta, field, 1)\n"                                \
  "end\n"

// Checks the version that a write expects: "" any or none, "+" any, otherwise exactly that version,
// 0 = absent.
#define TROUPE_CONDITION                                                       \
  "local function unmet(there, wanted)\n"                                      \
  "  if wanted == '' or (wanted == '+' and there > 0) then return false end\n" \
  "  return wanted == '+' or tonumber(wanted) ~= there\n"                      \
  "end\n"
#define TROUPE_USER_VERSION                                                                \
  "local function user_version()\n"                                                        \
  "  return tonumber(string.match(redis.call('GETRANGE', user, 0, 20), '^(%d+) ') or 0)\n" \
  "end\n"
#define TROUPE_ITEM_VERSION                                          \
  "local function item_version(item)\n"                              \
  "  if redis.call('HEXISTS', items, item) == 0 then return 0 end\n" \
  "  return tonumber(redis.call('ZSCORE', log, item) or 0)\n"        \
  "end\n"

constexpr const char* page_text = TROUPE_KEYS R"lua(
local state = redis.call('HMGET', meta, 'origin', 'catalog', 'trimmed', 'profiles', 'made_for')
local origin, version, trimmed = state[1] or '', tonumber(state[2] or 0), tonumber(state[3] or 0)
local base, after = tonumber(ARGV[2]), tonumber(ARGV[3])
if ARGV[1] ~= origin or after > version or (base > 0 and base < trimmed) then after = 0 end
local changed, rows = {}, {}
if after < version then
  changed = redis.call('ZRANGEBYSCORE', log, string.format('(%.0f', after), '+inf',
                       'WITHSCORES', 'LIMIT', 0, ARGV[4])
  local ids = {}
  for i = 1, #changed, 2 do ids[#ids + 1] = changed[i] end
  if #ids == tonumber(ARGV[4]) and ARGV[6] ~= '1' then return {origin, after, version} end
  if #ids > 0 then rows = redis.call('HMGET', items, unpack(ids)) end
end
local row = ARGV[5] == '1' and redis.call('GET', user)
return {origin, after, version, changed, rows, row, tonumber(state[4] or 0), state[5]}
)lua";

// Few arguments at a time: Lua's stack is bounded.
constexpr const char* items_text = TROUPE_KEYS R"lua(
local state = redis.call('HMGET', meta, 'origin', 'catalog', 'profiles', 'made_for')
local rows, versions = {}, {}
for first = 2, #ARGV, 500 do
  local part = redis.call('HMGET', items, unpack(ARGV, first, math.min(first + 499, #ARGV)))
  for i = 1, #part do rows[#rows + 1] = part[i] end
end
for i = 2, #ARGV do
  versions[i - 1] = rows[i - 1] and tonumber(redis.call('ZSCORE', log, ARGV[i]) or 0) or 0
end
local row = ARGV[1] == '1' and redis.call('GET', user)
return {state[1] or '', tonumber(state[2] or 0), rows, versions, row, tonumber(state[3] or 0), state[4],
        redis.call('HLEN', items)}
)lua";

// Checks come before the first write: a script is not rolled back.
constexpr const char* put_user_text =
    TROUPE_KEYS TROUPE_NEXT_VERSION TROUPE_CONDITION TROUPE_USER_VERSION R"lua(
if ARGV[6] ~= '' then
  local there = user_version()
  if unmet(there, ARGV[6]) then return {'unmet', there} end
end
if #ARGV > 6 then
  local state = redis.call('HMGET', meta, 'origin', 'catalog')
  if state[1] ~= ARGV[3] then return {'changed'} end
  if state[2] ~= ARGV[4] then
    for i = 7, #ARGV, 2 do
      local now = tonumber(redis.call('ZSCORE', log, ARGV[i]) or -1)
      if now ~= tonumber(ARGV[i + 1]) then return {'changed'} end
    end
  end
end
)lua" TROUPE_MARK_ORIGIN R"lua(
local version = next_version('profiles', ARGV[5])
redis.call('SET', user, string.format('%.0f ', version) .. ARGV[2])
return {'written', version}
)lua";

constexpr const char* delete_user_text =
    TROUPE_KEYS TROUPE_NEXT_VERSION TROUPE_CONDITION TROUPE_USER_VERSION R"lua(
if ARGV[2] ~= '' then
  local there = user_version()
  if there > 0 and unmet(there, ARGV[2]) then return {'unmet', there} end
end
if redis.call('DEL', user) == 0 then return {'missing'} end
return {'written', next_version('profiles', ARGV[1])}
)lua";

constexpr const char* put_item_text =
    TROUPE_KEYS TROUPE_NEXT_VERSION TROUPE_CONDITION TROUPE_ITEM_VERSION R"lua(
if ARGV[6] ~= '' then
  local there = item_version(ARGV[2])
  if unmet(there, ARGV[6]) then return {'unmet', there} end
end
if redis.call('HLEN', items) >= tonumber(ARGV[4]) and redis.call('HEXISTS', items, ARGV[2]) == 0 then
  return {'full'}
end
)lua" TROUPE_MARK_ORIGIN R"lua(
local version = next_version('catalog', ARGV[5])
redis.call('HSET', items, ARGV[2], ARGV[3])
redis.call('ZADD', log, version, ARGV[2])
redis.call('ZREM', gone, ARGV[2])
return {'written', version}
)lua";

constexpr const char* delete_item_text =
    TROUPE_KEYS TROUPE_NEXT_VERSION TROUPE_CONDITION TROUPE_ITEM_VERSION R"lua(
if ARGV[4] ~= '' then
  local there = item_version(ARGV[1])
  if there > 0 and unmet(there, ARGV[4]) then return {'unmet', there} end
end
if redis.call('HDEL', items, ARGV[1]) == 0 then return {'missing'} end
local version = next_version('catalog', ARGV[3])
redis.call('ZADD', log, version, ARGV[1])
redis.call('ZADD', gone, version, ARGV[1])
local over = math.min(redis.call('ZCARD', gone) - tonumber(ARGV[2]), 1000)
if over > 0 then
  local oldest = redis.call('ZPOPMIN', gone, over)
  for i = 1, #oldest, 2 do redis.call('ZREM', log, oldest[i]) end
  redis.call('HSET', meta, 'trimmed', oldest[#oldest])
end
return {'written', version}
)lua";

#undef TROUPE_KEYS
#undef TROUPE_MARK_ORIGIN
#undef TROUPE_NEXT_VERSION
#undef TROUPE_CONDITION
#undef TROUPE_USER_VERSION
#undef TROUPE_ITEM_VERSION

struct Script {
  const char* text;
  std::string sha;  // name under which the server caches it
};

std::string sha1_hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), sum.data(), &size, EVP_sha1(), nullptr);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[sum[i] >> 4];
    hex += "0123456789abcdef"[sum[i] & 15];
  }
  return hex;
}

Script script(const char* text) { return {text, sha1_hex(text)}; }

const Script page_script = script(page_text), items_script = script(items_text),
             put_user_script = script(put_user_text), delete_user_script = script(delete_user_text),
             put_item_script = script(put_item_text), delete_item_script = script(delete_item_text);

std::string text_of(const Condition& condition) {
  if (condition.absent) return "0";
  if (condition.version > 0) return std::to_string(condition.version);
  return condition.present ? "+" : "";
}

std::optional<std::uint64_t> version_in(const RedisReply& reply) {
  if (!reply.is(Kind::integer) || reply.integer < 0) return {};
  const auto version = static_cast<std::uint64_t>(reply.integer);
  return version <= version_max ? std::optional(version) : std::nullopt;
}

std::optional<std::uint64_t> version_in(std::string_view text) {
  std::uint64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size() || version > version_max) return {};
  return version;
}

bool read_entries(RedisReply& changed, RedisReply& rows, CatalogPage& page) {
  if (!changed.is(Kind::list) || !rows.is(Kind::list) || changed.list.size() != 2 * rows.list.size())
    return false;
  std::uint64_t last = page.after;
  for (std::size_t i = 0; i < rows.list.size(); ++i) {
    RedisReply &id = changed.list[2 * i], &score = changed.list[2 * i + 1], &row = rows.list[i];
    if (!id.is(Kind::text) || !score.is(Kind::text) || !(row.is(Kind::text) || row.is(Kind::nil)))
      return false;
    const auto version = version_in(score.text);
    if (!version || *version <= last || *version > page.version) return false;
    last = *version;
    page.entries.push_back({std::move(id.text), last, {}});
    if (row.is(Kind::text)) page.entries.back().record = std::move(row.text);
  }
  return true;
}

bool read_rows(RedisReply& records, const RedisReply& versions, std::size_t asked, ItemPage& page) {
  if (!records.is(Kind::list) || records.list.size() != asked) return false;
  if (!versions.is(Kind::list) || versions.list.size() != asked) return false;
  for (std::size_t i = 0; i < asked; ++i) {
    RedisReply& record = records.list[i];
    const auto version = version_in(versions.list[i]);
    if (!(record.is(Kind::text) || record.is(Kind::nil)) || !version || *version > page.version) return false;
    page.rows.push_back({{}, *version});
    if (record.is(Kind::text)) page.rows.back().record = std::move(record.text);
  }
  return true;
}

bool read_user(RedisReply& user, std::optional<std::string>& out) {
  if (user.is(Kind::text)) out = std::move(user.text);
  return user.is(Kind::text) || user.is(Kind::nil);
}

template <class Page>
bool read_notes(const RedisReply& profiles, RedisReply& made_for, Page& page) {
  const auto version = version_in(profiles);
  if (!version || !(made_for.is(Kind::text) || made_for.is(Kind::nil))) return false;
  page.profiles = *version;
  page.made_for = std::move(made_for.text);
  return true;
}

}  // namespace

std::vector<std::string> redis_scripts() {
  return {page_text, items_text, put_user_text, delete_user_text, put_item_text, delete_item_text};
}

std::string RedisKeys::user(std::string_view user_key) const {
  return std::string(prefix_).append("user:").append(user_key);
}

RedisCommand RedisKeys::call(const std::string& sha, const std::string& user_key) const {
  return {"EVALSHA",        sha,           "5", prefix_ + "meta", prefix_ + "items", prefix_ + "log",
          prefix_ + "gone", user(user_key)};
}

RedisCommand ask_page(const RedisKeys& keys, const PageQuestion& question) {
  RedisCommand command = keys.call(page_script.sha, question.user);
  command.insert(command.end(), {question.origin, std::to_string(question.base),
                                 std::to_string(question.after), std::to_string(question.items),
                                 question.user.empty() ? "0" : "1", question.full ? "1" : "0"});
  return command;
}

std::optional<CatalogPage> read_page(RedisReply& reply, const PageQuestion& question) {
  const std::size_t parts = reply.list.size();
  if (!reply.is(Kind::list) || !(parts == 8 || (parts == 3 && !question.full))) return {};
  if (!reply.list[0].is(Kind::text)) return {};
  const auto after = version_in(reply.list[1]), version = version_in(reply.list[2]);
  if (!after || !version || *after > *version || (*after != 0 && *after != question.after)) return {};
  CatalogPage page{std::move(reply.list[0].text), *after, *version};
  page.many = parts == 3;
  if (page.many) return page;
  if (!read_entries(reply.list[3], reply.list[4], page) || page.entries.size() > question.items) return {};
  if (!read_user(reply.list[5], page.user)) return {};
  return read_notes(reply.list[6], reply.list[7], page) ? std::optional(std::move(page)) : std::nullopt;
}

RedisCommand ask_items(const RedisKeys& keys, const ItemQuestion& question) {
  RedisCommand command = keys.call(items_script.sha, question.user);
  command.push_back(question.user.empty() ? "0" : "1");
  command.insert(command.end(), question.items.begin(), question.items.end());
  return command;
}

std::optional<ItemPage> read_items(RedisReply& reply, const ItemQuestion& question) {
  if (!reply.is(Kind::list) || reply.list.size() != 8 || !reply.list[0].is(Kind::text)) return {};
  const auto version = version_in(reply.list[1]), items = version_in(reply.list[7]);
  if (!version || !items) return {};
  ItemPage page{.origin = std::move(reply.list[0].text), .version = *version, .items = *items};
  if (!read_rows(reply.list[2], reply.list[3], question.items.size(), page)) return {};
  if (!read_user(reply.list[4], page.user)) return {};
  return read_notes(reply.list[5], reply.list[6], page) ? std::optional(std::move(page)) : std::nullopt;
}

std::optional<std::pair<std::uint64_t, std::string_view>> split_user_row(std::string_view row) {
  const std::size_t blank = row.find(' ');
  if (blank == std::string_view::npos) return {};
  const auto version = version_in(row.substr(0, blank));
  if (!version) return {};
  return std::pair(*version, row.substr(blank + 1));
}

RedisCommand ask_put_user(const RedisKeys& keys, const std::string& nonce, const std::string& user,
                          const UserDraft& draft, std::uint64_t floor) {
  RedisCommand command = keys.call(put_user_script.sha, user);
  command.insert(command.end(), {nonce, draft.record, draft.origin, std::to_string(draft.catalog),
                                 std::to_string(floor), text_of(draft.condition)});
  for (const HistoryItem& item : draft.seen) {
    command.push_back(item.id);
    command.push_back(std::to_string(item.version));
  }
  return command;
}

RedisCommand ask_delete_user(const RedisKeys& keys, const std::string& user, std::uint64_t floor,
                             const Condition& condition) {
  RedisCommand command = keys.call(delete_user_script.sha, user);
  command.insert(command.end(), {std::to_string(floor), text_of(condition)});
  return command;
}

RedisCommand ask_put_item(const RedisKeys& keys, const std::string& nonce, const std::string& item,
                          const std::string& record, std::uint64_t items_max, std::uint64_t floor,
                          const Condition& condition) {
  RedisCommand command = keys.call(put_item_script.sha, "");
  command.insert(command.end(),
                 {nonce, item, record, std::to_string(items_max), std::to_string(floor), text_of(condition)});
  return command;
}

RedisCommand ask_delete_item(const RedisKeys& keys, const std::string& item, std::uint64_t gone_max,
                             std::uint64_t floor, const Condition& condition) {
  RedisCommand command = keys.call(delete_item_script.sha, "");
  command.insert(command.end(), {item, std::to_string(gone_max), std::to_string(floor), text_of(condition)});
  return command;
}

std::optional<WriteOutcome> read_outcome(const RedisReply& reply) {
  if (!reply.is(Kind::list) || reply.list.empty() || !reply.list[0].is(Kind::text)) return {};
  const std::string& word = reply.list[0].text;
  if (word == "written" && reply.list.size() == 2)
    if (const auto version = version_in(reply.list[1])) return WriteOutcome{What::written, *version};
  if (word == "unmet" && reply.list.size() == 2)
    if (const auto version = version_in(reply.list[1])) return WriteOutcome{What::unmet, *version};
  if (reply.list.size() != 1) return {};
  if (word == "missing") return WriteOutcome{What::missing};
  if (word == "full") return WriteOutcome{What::full};
  if (word == "changed") return WriteOutcome{What::changed};
  return {};
}

}  // namespace troupe
