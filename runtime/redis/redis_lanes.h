#pragma once
// A connection to Redis per lane, made when it is needed and thrown away after any failure, so that no reply
// is ever taken for another command's. While the server cannot be reached, one lane at a time tries again,
// after a pause; the others fail at once.
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/redis/redis_connection.h"

namespace troupe {

// When may a lane try to connect? Everybody while all is well; one at a time, `pause` apart, after a failure.
class ReconnectGate {
 public:
  explicit ReconnectGate(std::chrono::microseconds pause) : pause_(pause) {}
  bool enter(RedisDeadline now);  // true: connect, then call leave()
  void leave(RedisDeadline now, bool connected);

 private:
  const std::chrono::microseconds pause_;
  std::mutex mutex_;
  bool away_ = false, trying_ = false;
  RedisDeadline next_try_;
};

struct RedisLanesOptions {
  RedisAddress address;
  std::uint32_t lanes = 1;
  std::chrono::microseconds time_limit{200'000};  // of connecting, and of each pipeline
  std::chrono::microseconds reconnect_pause{50'000};
};

class RedisLanes {
  struct Lane {
    std::mutex mutex;
    std::unique_ptr<RedisConnection> connection;
    std::string run;
  };

 public:
  // A lane in use: nobody else has its connection.
  class Session {
   public:
    // Identifies the run of the server's process: another one may have lost what the last one acknowledged.
    const std::string& run_id() const { return lane_->run; }
    // If the server has lost its scripts (the first command was answered so), they are loaded and all is run
    // once more.
    OrRedisFailure<std::vector<RedisReply>> run(std::span<const RedisCommand> commands,
                                                std::chrono::microseconds limit);
    OrRedisFailure<std::vector<RedisReply>> run(std::span<const RedisCommand> commands) {
      return run(commands, lanes_->options_.time_limit);
    }
    void drop() { lane_->connection.reset(); }  // it said something that it should not have said

   private:
    friend RedisLanes;
    Session(const RedisLanes& lanes, Lane& lane) : lanes_(&lanes), lane_(&lane), lock_(lane.mutex) {}
    const RedisLanes* lanes_;
    Lane* lane_;
    std::unique_lock<std::mutex> lock_;
  };

  // `scripts` are loaded into the server's cache on each connection.
  RedisLanes(RedisLanesOptions options, std::vector<std::string> scripts);

  // A connection to a server that knows us, is ready and is no replica. Waits for the lane, if it is in use.
  OrRedisFailure<Session> take(std::uint32_t lane);

 private:
  OrRedisFailure<std::unique_ptr<RedisConnection>> connect(std::string& run) const;
  std::vector<RedisCommand> greeting() const;
  void add_scripts(std::vector<RedisCommand>& commands) const;

  const RedisLanesOptions options_;
  const std::vector<std::string> scripts_;
  ReconnectGate gate_;
  std::vector<Lane> lanes_;
};

// The first word of an error, "LOADING", or "an error": the rest may repeat what was sent.
std::string error_code(const RedisReply& error);

}  // namespace troupe
