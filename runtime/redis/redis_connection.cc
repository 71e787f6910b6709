// Runs a pipeline (commands sent together) on one connection to Redis and reads all its replies
// before a deadline. Any invalid reply ends the connection, so that no reply is taken for another
// command's.
#include "runtime/redis/redis_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace troupe {
namespace {

// Returns a connected socket, or -1 and `why`.
int start_connect(const addrinfo& at, RedisDeadline deadline, std::string& why) {
  const int made = socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, at.ai_protocol);
  if (made < 0) return why = system_text(errno), -1;
  const int on = 1;
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(made, at.ai_addr, at.ai_addrlen) == 0) return made;
  int error = errno;
  if (error == EINPROGRESS && (why = wait_for(made, POLLOUT, deadline)).empty()) {
    socklen_t size = sizeof error;
    getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return made;
  }
  if (error != EINPROGRESS) why = system_text(error);
  close(made);
  return -1;
}

std::string encode(std::span<const RedisCommand> commands) {
  std::string bytes;
  for (const RedisCommand& words : commands) {
    bytes += "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string& word : words)
      bytes.append("$").append(std::to_string(word.size())).append("\r\n").append(word).append("\r\n");
  }
  return bytes;
}

}  // namespace

OrRedisFailure<std::unique_ptr<RedisConnection>> RedisConnection::open(const RedisAddress& address,
                                                                       RedisDeadline deadline,
                                                                       const RedisReplyLimits& limits) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int fault =
          getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &wanted, &found))
    return RedisFailure{std::string("its name is not known: ") + gai_strerror(fault)};
  std::string why;  // of the first address: the name of a machine often has a second one that nobody serves
  int made = -1;
  for (const addrinfo* at = found; at && made < 0; at = at->ai_next) {
    std::string failed;
    made = start_connect(*at, deadline, failed);
    if (made < 0 && why.empty()) why = std::move(failed);
  }
  freeaddrinfo(found);
  if (made < 0) return RedisFailure{"cannot connect: " + (why.empty() ? "it has no address" : why)};
  std::unique_ptr<RedisConnection> connection(new RedisConnection(made, limits));
  if (!address.tls) return connection;
  if (!address.trust) return RedisFailure{"the TLS trust files were not read"};
  if (why = connection->stream_.begin_tls(*address.trust, address.host, deadline); !why.empty())
    return RedisFailure{"no TLS: " + why};
  return connection;
}

OrRedisFailure<std::vector<RedisReply>> RedisConnection::run(std::span<const RedisCommand> commands,
                                                             RedisDeadline deadline) {
  bool any_sent = false;
  if (std::string why = stream_.send_all(encode(commands), deadline, any_sent); !why.empty())
    return RedisFailure{std::move(why), any_sent};
  replies_.begin();
  std::vector<RedisReply> replies(commands.size());
  for (RedisReply& reply : replies)
    if (std::string why = read_reply(reply, deadline); !why.empty())
      return RedisFailure{std::move(why), true};
  if (!replies_.is_empty()) return RedisFailure{"more replies than commands", true};
  return replies;
}

std::string RedisConnection::read_reply(RedisReply& reply, RedisDeadline deadline) {
  for (;;) {
    auto found = replies_.next();
    if (auto* whole = std::get_if<RedisReply>(&found)) return reply = std::move(*whole), "";
    if (auto* why = std::get_if<std::string>(&found)) return std::move(*why);
    if (std::string why = receive(deadline); !why.empty()) return why;
  }
}

std::string RedisConnection::receive(RedisDeadline deadline) {
  auto got = stream_.receive(incoming_, deadline);
  if (auto* why = std::get_if<std::string>(&got)) return std::move(*why);
  return replies_.add({incoming_.data(), std::get<std::size_t>(got)});
}

}  // namespace troupe
