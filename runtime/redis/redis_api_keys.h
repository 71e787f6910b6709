#pragma once
// API keys shared by several HTTP servers, in one hash of a Redis. Each field is a key's id; its
// value is the key's line (server/auth/api_keys.h), which contains no secret and which callers
// parse.
#include <map>
#include <set>
#include <string>

#include "runtime/redis/redis_connection_pool.h"

namespace troupe {

struct RedisApiKeysOptions {
  RedisAddress address;
  std::string cluster;                              // cluster that the keys belong to
  std::chrono::microseconds time_limit{1'000'000};  // limit for connecting, and for each command
};

// One thread at a time.
class RedisApiKeys {
 public:
  static constexpr std::size_t keys_max = 1 << 15, bytes_max = std::size_t{16} << 20;

  explicit RedisApiKeys(const RedisApiKeysOptions& options);

  // Returns all key records by id. Error texts never contain secrets.
  OrRedisFailure<std::map<std::string, std::string>> read();
  // Stores a key. Returns "" or the reason why not. Refuses what would exceed the limits of read(),
  // since servers could then read no keys at all. Two concurrent calls may exceed them by one key.
  std::string put(const std::string& id, const std::string& line);
  OrRedisFailure<bool> erase(const std::string& id);  // false: it was absent
  // Returns the names of clusters that have data or keys in this Redis, as far as a bounded look shows
  // them; the cluster of these keys is found for sure.
  OrRedisFailure<std::set<std::string>> clusters();

 private:
  OrRedisFailure<RedisReply> ask(RedisCommand command);

  const std::string cluster_, key_;
  RedisConnectionPool connections_;
};

}  // namespace troupe
