#pragma once
// One endpoint of etcd, asked over HTTP/1.1 (Boost.Beast), in the clear or over TLS. Several threads may ask
// at once, each on a connection of its own; connections stay open for whoever asks next, and one that has
// broken is replaced. A response is bounded in size, an exchange in time, whatever the other side does.
//
// A host that is given by name is looked up each time a connection is made, by the system and within its time
// limits, not ours. Addresses are not looked up.
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
struct EtcdSilence {
  std::string what;   // "Connection refused"
  bool sent = false;  // the other side may have the question
};

// Thread-safe.
class EtcdEndpoint {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t body_bytes_max = 4 << 20;
  static constexpr std::size_t idle_max = 8;  // connections that are kept

  // "http://host:port", or https; throws std::runtime_error that says what was expected, and tells no login.
  // `tls`: of https; null: it believes the system's authorities.
  explicit EtcdEndpoint(std::string url, std::shared_ptr<const TlsClient> tls = nullptr);
  ~EtcdEndpoint();

  const std::string& url() const { return url_; }
  // The connection is made by the first moment, the reply is there by the second one.
  // `token`: of who asks; "": nobody's.
  std::variant<EtcdReply, EtcdSilence> post(const std::string& path, const std::string& body,
                                            const std::string& token, Time connected_by, Time answered_by);

 private:
  struct Connection;

  std::unique_ptr<Connection> take_idle();
  void keep(std::unique_ptr<Connection> connection);
  void drop_idle();

  const std::string url_;
  std::string host_, port_;
  std::shared_ptr<const TlsClient> tls_;  // null: in the clear
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;  // the last one was used last
};

}  // namespace troupe
