#pragma once
// The door's API keys where several doors share them: a file, or a Redis that is read now and then by a
// thread of its own. While the Redis is away, has none, or what it has makes no sense, the keys that were
// read last go on: nobody is locked out, and who was revoked meanwhile is known as long as that lasts
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

bool keys_in_redis(const std::string& place);  // an address, and no file
// As in `place`, by the files of features.… . Throws ConfigError.
RedisApiKeysOptions shared_keys_options(const Config& config, const std::string& place);

// Lines of one key each. Throws ConfigError that says `where`, and the field of a line that is none.
std::shared_ptr<const server::ApiKeys> keys_of(const std::map<std::string, std::string>& lines,
                                               const std::string& where);

class SharedKeys {
 public:
  using Keys = std::shared_ptr<const server::ApiKeys>;
  using OnNews = std::function<void(Keys)>;  // on its thread

  // Reads them once. Throws ConfigError if they cannot be had: a door that knows nobody lets nobody in.
  SharedKeys(const RedisApiKeysOptions& options, std::chrono::microseconds every, LogSink log);
  ~SharedKeys();
  SharedKeys(const SharedKeys&) = delete;

  void start(OnNews on_news);
  void stop();        // no news after it
  Keys keys() const;  // as read last
  void read_now();    // soon, on its thread
  double age_seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  void run(const OnNews& on_news);
  std::string refresh();  // "" or why not
  void tell(const std::string& why);

  RedisApiKeys redis_;
  const std::string where_;
  const std::chrono::microseconds every_;
  const LogSink log_;
  std::map<std::string, std::string> lines_;  // what keys_ was made of; of the reading thread
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Keys keys_;
  Clock::time_point read_at_;
  bool ends_ = false, asked_ = false, away_ = false;
  std::thread thread_;
};

}  // namespace troupe::deploy
