#pragma once
// API keys that several doors share, in one hash of a Redis: a field for each key's id, its line
// (server/auth/api_keys.h) the value. There is no secret in it. Lines are for others to read.
#include <map>
#include <string>

#include "runtime/redis/redis_lanes.h"

namespace troupe {

struct RedisApiKeysOptions {
  RedisAddress address;
  std::string cluster;                              // whose keys
  std::chrono::microseconds time_limit{1'000'000};  // of connecting, and of each question
};

// One thread at a time.
class RedisApiKeys {
 public:
  static constexpr std::size_t keys_max = 1 << 15, bytes_max = std::size_t{16} << 20;

  explicit RedisApiKeys(const RedisApiKeysOptions& options);

  // By id. A failure has no secrets.
  OrRedisFailure<std::map<std::string, std::string>> read();
  // "" or why not: also where it would be more than read() takes, which would keep servers from all keys. Two
  // at the same time may pass that by one.
  std::string put(const std::string& id, const std::string& line);
  OrRedisFailure<bool> erase(const std::string& id);  // false: it was not there

 private:
  OrRedisFailure<RedisReply> ask(RedisCommand command);

  const std::string key_;
  RedisLanes lanes_;
};

}  // namespace troupe
