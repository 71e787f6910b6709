// Reads and writes the API keys that several HTTP servers share in one Redis hash. Total size is
// limited, so that servers can always read all keys.
#include "runtime/redis/redis_api_keys.h"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

using Kind = RedisReply::Kind;
using Lines = std::map<std::string, std::string>;

constexpr std::string_view keys_begin = "troupe:";  // of every cluster, before its name
constexpr int scan_rounds_max = 100;                // of 1,000 keys each
constexpr std::size_t frame_bytes = 32;             // overhead of a field and its value in a reply

std::string refuse_if_over_limits(const Lines& lines, const std::string& id, const std::string& line) {
  std::size_t count = 1, bytes = id.size() + line.size() + frame_bytes;
  for (const auto& [other, its_line] : lines)
    if (other != id) ++count, bytes += other.size() + its_line.size() + frame_bytes;
  if (count > RedisApiKeys::keys_max)
    return "it has " + std::to_string(RedisApiKeys::keys_max) +
           " keys, the most that a server reads; revoke some first";
  if (bytes > RedisApiKeys::bytes_max)
    return "its keys would exceed 16 MiB, the most that a server reads; revoke some first";
  return "";
}

}  // namespace

RedisApiKeys::RedisApiKeys(const RedisApiKeysOptions& options)
    : cluster_(options.cluster),
      key_(std::string(keys_begin) + cluster_ + ":api_keys"),
      connections_({.address = options.address, .connections = 1, .time_limit = options.time_limit}, {}) {}

OrRedisFailure<RedisReply> RedisApiKeys::ask(RedisCommand command) {
  auto taken = connections_.take(0);
  if (auto* failure = std::get_if<RedisFailure>(&taken)) return std::move(*failure);
  auto answer = std::get<RedisConnectionPool::Session>(taken).run({&command, 1});
  if (auto* failure = std::get_if<RedisFailure>(&answer)) return std::move(*failure);
  RedisReply reply = std::move(std::get<std::vector<RedisReply>>(answer).front());
  if (reply.is(Kind::error))
    return RedisFailure{"it answers " + command.front() + " with " + error_code(reply)};
  return reply;
}

// Asks for the count first: a list that is too long would break the connection.
OrRedisFailure<std::map<std::string, std::string>> RedisApiKeys::read() {
  auto counted = ask({"HLEN", key_});
  if (auto* failure = std::get_if<RedisFailure>(&counted)) return std::move(*failure);
  if (const auto count = std::get<RedisReply>(counted).integer;
      count < 0 || static_cast<std::uint64_t>(count) > keys_max)
    return RedisFailure{"it has " + std::to_string(count) + " keys, more than " + std::to_string(keys_max)};
  auto answer = ask({"HGETALL", key_});
  if (auto* failure = std::get_if<RedisFailure>(&answer)) return std::move(*failure);
  RedisReply& all = std::get<RedisReply>(answer);
  if (!all.is(Kind::list) || all.list.size() % 2 != 0)
    return RedisFailure{"it does not answer with fields and values"};
  std::map<std::string, std::string> lines;
  for (std::size_t i = 0; i < all.list.size(); i += 2) {
    if (!all.list[i].is(Kind::text) || !all.list[i + 1].is(Kind::text))
      return RedisFailure{"it does not answer with texts"};
    lines.emplace(std::move(all.list[i].text), std::move(all.list[i + 1].text));
  }
  return lines;
}

std::string RedisApiKeys::put(const std::string& id, const std::string& line) {
  const auto there = read();
  if (const auto* failure = std::get_if<RedisFailure>(&there)) return failure->why;
  if (std::string why = refuse_if_over_limits(std::get<Lines>(there), id, line); !why.empty()) return why;
  const auto answer = ask({"HSET", key_, id, line});
  const auto* failure = std::get_if<RedisFailure>(&answer);
  return failure ? failure->why : "";
}

OrRedisFailure<std::set<std::string>> RedisApiKeys::clusters() {
  std::set<std::string> names;
  auto there = ask({"EXISTS", key_, std::string(keys_begin) + cluster_ + ":meta"});
  if (auto* failure = std::get_if<RedisFailure>(&there)) return std::move(*failure);
  if (std::get<RedisReply>(there).integer > 0) names.insert(cluster_);
  std::string cursor = "0";
  for (int round = 0; round < scan_rounds_max; ++round) {
    auto answer = ask({"SCAN", cursor, "MATCH", std::string(keys_begin) + "*", "COUNT", "1000"});
    if (auto* failure = std::get_if<RedisFailure>(&answer)) return std::move(*failure);
    const RedisReply& found = std::get<RedisReply>(answer);
    if (!found.is(Kind::list) || found.list.size() != 2 || !found.list[1].is(Kind::list))
      return RedisFailure{"it does not answer with keys"};
    for (const RedisReply& key : found.list[1].list) {
      const std::string rest = key.text.substr(std::min(keys_begin.size(), key.text.size()));
      if (const std::size_t end = rest.find(':'); end != rest.npos) names.insert(rest.substr(0, end));
    }
    cursor = found.list[0].text;
    if (cursor == "0") break;
  }
  return names;
}

OrRedisFailure<bool> RedisApiKeys::erase(const std::string& id) {
  auto answer = ask({"HDEL", key_, id});
  if (auto* failure = std::get_if<RedisFailure>(&answer)) return std::move(*failure);
  return std::get<RedisReply>(answer).integer > 0;
}

}  // namespace troupe
