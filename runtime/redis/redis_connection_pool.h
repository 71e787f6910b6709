#pragma once
// Keeps one connection to Redis per executor slot. It is opened when needed and discarded after any
// failure, so that no reply is ever taken for another command's. While the server is unreachable,
// one slot at a time tries again after a pause; the others fail at once.
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/redis/redis_connection.h"
#include "runtime/redis/redis_evictions.h"

namespace troupe {

// Limits attempts to connect: all slots may connect while the server is reachable; after a failure
// one at a time, `pause` apart.
class ReconnectGate {
 public:
  explicit ReconnectGate(std::chrono::microseconds pause) : pause_(pause) {}
  bool enter(RedisDeadline now);  // true: connect, then call leave()
  // `why` is the reason of a failed attempt.
  void leave(RedisDeadline now, bool connected, const std::string& why = "");
  std::string last_why() const;  // of the attempt that failed last

 private:
  const std::chrono::microseconds pause_;
  mutable std::mutex mutex_;
  std::string why_;
  bool away_ = false, trying_ = false;
  RedisDeadline next_try_;
};

struct RedisConnectionPoolOptions {
  RedisAddress address;
  std::uint32_t connections = 1;
  std::chrono::microseconds time_limit{200'000};  // limit for connecting, and for each pipeline
  std::chrono::microseconds reconnect_pause{50'000};
  // Called with the server's standing at each connect, and at most this often while connections are
  // used; from any slot. May be empty.
  std::function<void(const RedisStanding&)> on_standing = {};
  std::chrono::microseconds standing_every{5'000'000};
};

class RedisConnectionPool {
  struct Slot {
    std::mutex mutex;
    std::unique_ptr<RedisConnection> connection;
    std::string run;
    RedisDeadline standing_at;  // when the standing was asked for last
  };

 public:
  // Exclusive use of one slot's connection.
  class Session {
   public:
    // Identifies the run of the server's process: a new run may have lost writes that the former
    // one acknowledged.
    const std::string& run_id() const { return slot_->run; }
    // Runs a pipeline. If the server has lost its scripts (the first reply says so), loads them and
    // runs everything once more.
    OrRedisFailure<std::vector<RedisReply>> run(std::span<const RedisCommand> commands,
                                                std::chrono::microseconds limit);
    OrRedisFailure<std::vector<RedisReply>> run(std::span<const RedisCommand> commands) {
      return run(commands, connections_->options_.time_limit);
    }
    void drop() { slot_->connection.reset(); }  // after an unexpected reply

   private:
    friend RedisConnectionPool;
    Session(const RedisConnectionPool& connections, Slot& slot)
        : connections_(&connections), slot_(&slot), lock_(slot.mutex) {}
    const RedisConnectionPool* connections_;
    Slot* slot_;
    std::unique_lock<std::mutex> lock_;
  };

  // `scripts` are loaded into the server's cache on each connection.
  RedisConnectionPool(RedisConnectionPoolOptions options, std::vector<std::string> scripts);

  // Returns a connection to a server that authenticated us, is ready and is not a replica. Waits
  // while the slot is in use.
  OrRedisFailure<Session> take(std::uint32_t slot);

 private:
  OrRedisFailure<std::unique_ptr<RedisConnection>> connect(Slot& slot) const;
  // Asks if it is time to. Returns a failure of the connection.
  std::optional<RedisFailure> ask_standing(Slot& slot) const;
  std::vector<RedisCommand> greeting() const;
  void add_scripts(std::vector<RedisCommand>& commands) const;

  const RedisConnectionPoolOptions options_;
  const std::vector<std::string> scripts_;
  ReconnectGate gate_;
  std::vector<Slot> connections_;
};

// Returns the first word of an error, such as "LOADING", or "an error". The remaining text may
// repeat what was sent.
std::string error_code(const RedisReply& error);

}  // namespace troupe
