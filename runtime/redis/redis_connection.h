#pragma once
// One connection to a Redis, and the only place that knows hiredis (its parser of replies). A pipeline of
// commands goes out at once and all replies are read before the deadline, which holds for the whole of it,
// however slowly bytes drip in. Whatever is not a sound reply within the bounds ends the connection.
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/redis/redis_url.h"

namespace troupe {

struct RedisReply {
  enum class Kind : std::uint8_t { nil, integer, text, status, error, list } kind = Kind::nil;
  std::int64_t integer = 0;
  std::string text;  // of text, status and error
  std::vector<RedisReply> list;
  bool is(Kind other) const { return kind == other; }
};

struct RedisFailure {
  std::string why;            // "no answer in time"; no addresses, no passwords
  bool may_have_run = false;  // bytes of the commands went out, and not all replies came back
};
template <class T>
using OrRedisFailure = std::variant<T, RedisFailure>;

using RedisCommand = std::vector<std::string>;  // words
using RedisDeadline = std::chrono::steady_clock::time_point;

struct RedisReplyLimits {
  std::size_t bytes_max = std::size_t{16} << 20;  // of one pipeline's replies
  std::size_t elements_max = 1 << 16;             // of one list
};

// Not thread-safe.
class RedisConnection {
 public:
  // Looking up a name is the system's business and not bound by the deadline; an address needs no look-up.
  static OrRedisFailure<std::unique_ptr<RedisConnection>> open(const RedisAddress& address,
                                                               RedisDeadline deadline,
                                                               const RedisReplyLimits& limits = {});
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // One reply per command, in order; a reply may be an error of the server. After a failure the connection
  // is of no more use.
  OrRedisFailure<std::vector<RedisReply>> run(std::span<const RedisCommand> commands, RedisDeadline deadline);

  // False: the server has closed it, or said what nobody asked for.
  bool is_quiet() const;

 private:
  struct Reader;
  RedisConnection(int socket, const RedisReplyLimits& limits);
  std::string send_all(std::string_view bytes, RedisDeadline deadline, bool& any_sent);
  std::string read_reply(RedisReply& reply, RedisDeadline deadline, std::size_t& bytes_left);
  std::string receive(RedisDeadline deadline, std::size_t& bytes_left);

  const int socket_;
  const std::unique_ptr<Reader> reader_;
};

}  // namespace troupe
