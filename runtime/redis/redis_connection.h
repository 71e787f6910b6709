#pragma once
// One connection to a Redis. It sends a pipeline of commands at once and reads all replies before
// the deadline, which covers the whole pipeline, however slowly bytes arrive. Anything but sound
// replies within the bounds ends the connection. Only the parser of hiredis is used: its time
// limits are per read, and Debian's build has no TLS.
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/redis/redis_reply.h"
#include "runtime/redis/redis_stream.h"
#include "runtime/redis/redis_url.h"

namespace troupe {

struct RedisFailure {
  std::string why;            // such as "no answer in time"; contains no addresses or passwords
  bool may_have_run = false;  // bytes of the commands were sent, and not all replies were received
};
template <class T>
using OrRedisFailure = std::variant<T, RedisFailure>;

using RedisCommand = std::vector<std::string>;  // words of one command

// Not thread-safe.
class RedisConnection {
 public:
  // The system's name look-up is not bounded by the deadline; a numeric address needs none.
  static OrRedisFailure<std::unique_ptr<RedisConnection>> open(const RedisAddress& address,
                                                               RedisDeadline deadline,
                                                               const RedisReplyLimits& limits = {});
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // Runs commands and returns one reply per command, in order; a reply may be a server error. After
  // a failure the connection cannot be used any more.
  OrRedisFailure<std::vector<RedisReply>> run(std::span<const RedisCommand> commands, RedisDeadline deadline);

  // Returns false if the server has closed the connection or sent unrequested bytes.
  bool is_quiet() { return stream_.is_quiet(); }

 private:
  RedisConnection(int socket, const RedisReplyLimits& limits) : stream_(socket), replies_(limits) {}
  std::string read_reply(RedisReply& reply, RedisDeadline deadline);
  std::string receive(RedisDeadline deadline);

  RedisStream stream_;
  RedisReplyReader replies_;
  std::array<char, 65536> incoming_;
};

}  // namespace troupe
