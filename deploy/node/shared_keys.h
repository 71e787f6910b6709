#pragma once
// API keys that several HTTP servers share. They are in a file or in a Redis; a thread polls the
// Redis. If the Redis does not answer, has no keys or has malformed ones, the last keys stay valid:
// nobody is locked out, but a revoked key keeps working until the Redis is back
// (troupe_api_keys_age_seconds).
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/config/config.h"
#include "runtime/host/host.h"
#include "runtime/redis/redis_api_keys.h"
#include "server/auth/api_keys.h"

namespace troupe::deploy {

bool keys_in_redis(const std::string& place);  // true for a Redis address, false for a file
// Returns the options for the Redis at `place`, with the login and TLS files of features.…. Throws
// ConfigError.
RedisApiKeysOptions shared_keys_options(const Config& config, const std::string& place);

// Returns the command that adds a key which servers with this configuration read: it works as it is, in
// the folder of the configuration.
std::string keys_command(const Config& config, const std::string& place);

// Parses key records, one per line, by key id. Throws ConfigError that names `where` and the field
// of a malformed record.
std::shared_ptr<const server::ApiKeys> keys_of(const std::map<std::string, std::string>& lines,
                                               const std::string& where);

class SharedKeys {
 public:
  using Keys = std::shared_ptr<const server::ApiKeys>;
  using OnChange = std::function<void(Keys)>;  // called on its thread

  // Reads the keys once. Throws ConfigError if that fails: an HTTP server without keys could admit
  // nobody. `made_by`: the command that adds a key, for the error.
  SharedKeys(const RedisApiKeysOptions& options, std::chrono::microseconds every, LogSink log,
             const std::string& made_by = "troupe keys add …");
  ~SharedKeys();
  SharedKeys(const SharedKeys&) = delete;

  void start(OnChange on_change);
  void stop();        // no call of on_change after it returns
  Keys keys() const;  // the keys that were read last
  void read_now();    // wakes the thread, does not wait for it
  double age_seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  void run(const OnChange& on_change);
  std::string refresh();  // returns "" or the error
  void log_change(const std::string& why);

  RedisApiKeys redis_;
  const std::string where_;
  const std::chrono::microseconds every_;
  const LogSink log_;
  // records that keys_ was parsed from; used by the reading thread only
  std::map<std::string, std::string> lines_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Keys keys_;
  Clock::time_point read_at_;
  bool stopping_ = false, asked_ = false, away_ = false;
  std::thread thread_;
};

}  // namespace troupe::deploy
