#pragma once
// One connection to a Redis. A pipeline of commands goes out at once and all replies are read before the
// deadline, which holds for the whole of it, however slowly bytes drip in. Whatever is not a sound reply
// within the bounds ends the connection. hiredis, of which only the parser is used, has time limits for each
// read and no TLS as Debian has it.
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
  std::string why;            // "no answer in time"; no addresses, no passwords
  bool may_have_run = false;  // bytes of the commands went out, and not all replies came back
};
template <class T>
using OrRedisFailure = std::variant<T, RedisFailure>;

using RedisCommand = std::vector<std::string>;  // words

// Not thread-safe.
class RedisConnection {
 public:
  // Looking up a name is the system's business and not bound by the deadline; an address needs no look-up.
  static OrRedisFailure<std::unique_ptr<RedisConnection>> open(const RedisAddress& address,
                                                               RedisDeadline deadline,
                                                               const RedisReplyLimits& limits = {});
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // One reply per command, in order; a reply may be an error of the server. After a failure the connection
  // is of no more use.
  OrRedisFailure<std::vector<RedisReply>> run(std::span<const RedisCommand> commands, RedisDeadline deadline);

  // False: the server has closed it, or said what nobody asked for.
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
