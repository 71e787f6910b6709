#pragma once
// One endpoint of etcd over HTTP/1.1 (Boost.Beast), plain or with TLS. Several threads may use it
// at once, each on its own connection. Connections stay open for the next question, and broken ones
// are replaced. A response is bounded in size and an exchange in time, whatever the server does.
//
// A host name is looked up each time a connection is made, by the system and within its time
// limits, not ours. Numeric addresses are not looked up.
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "runtime/tls/tls_client.h"

namespace troupe {

struct EtcdReply {
  unsigned status = 0;
  std::string body;
};
struct EtcdNoReply {
  std::string what;   // such as "Connection refused"
  bool sent = false;  // the server may have received the question
};

// Thread-safe.
class EtcdEndpoint {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t body_bytes_max = 4 << 20;
  static constexpr std::size_t idle_max = 8;  // idle connections kept

  // Takes "http://host:port", or https. Throws std::runtime_error with what was expected, without
  // revealing a login. `tls`: for https; null: trusts the system's authorities.
  explicit EtcdEndpoint(std::string url, std::shared_ptr<const TlsClient> tls = nullptr);
  ~EtcdEndpoint();

  const std::string& url() const { return url_; }
  // Posts a request: connects by `connected_by` and returns the reply by `answered_by`. `token`:
  // the caller's login token; "" = none.
  std::variant<EtcdReply, EtcdNoReply> post(const std::string& path, const std::string& body,
                                            const std::string& token, Time connected_by, Time answered_by);

 private:
  struct Connection;

  std::unique_ptr<Connection> take_idle();
  void keep(std::unique_ptr<Connection> connection);
  void drop_idle();

  const std::string url_;
  std::string host_, port_;
  std::shared_ptr<const TlsClient> tls_;  // null: plain
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;  // most recently used last
};

}  // namespace troupe
