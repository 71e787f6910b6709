#pragma once
// HTTP server (Boost.Beast, and nghttp2 for HTTP/2): turns requests into messages for the router and
// its answers into responses. A connection begins with HTTP/2's preface, or chooses it by ALPN, or
// speaks HTTP/1.1; both serve the same requests. gRPC is served over HTTP/2 (rpc_service.h). One thread owns
// every socket; answers from the actors are posted to it. Every kind of input has a limit before any byte is
// kept: headers, body, the parts between chunks, and the memory for all connections together. Every request
// gets exactly one response, at the latest `answer_us_max` after its last byte; a reload within
// `reload_us_max`.
//
// Connections are bounded in total and per address. At the limit, the connection that has waited
// longest closes, of the address with the most (connection_limiter.h). A new connection is refused
// only if the actors have a request of every other one. Even then some connections are reserved for
// health and metrics.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/metrics.h"
#include "runtime/actor/model_actor_ids.h"
#include "runtime/host/host.h"
#include "server/auth/api_keys.h"
#include "server/auth/cross_origin.h"
#include "server/auth/rate_limits.h"
#include "server/http/http_routes.h"
#include "server/http/model_choice.h"
#include "server/http/rpc_service.h"
#include "server/observability/observed_request.h"

namespace troupe::server {

// Thrown if the server cannot listen: "http: 127.0.0.1:8080 is in use; expected a free port".
struct ServerError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Certificate that the server presents over TLS.
struct ServerCertificate {
  std::string chain, key;  // PEM; empty = no TLS
  bool empty() const { return chain.empty(); }
};

struct HttpServerConfig {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;              // 0 = any free port
  std::shared_ptr<const RpcService> rpc;  // answers gRPC; null = none
  // A further address that serves only `rpc`; "" = none.
  std::string rpc_address;
  std::uint16_t rpc_port = 0;      // 0 = any free port
  std::uint32_t streams_max = 64;  // open requests of one connection over HTTP/2
  std::uint32_t connections_max = 1024;
  std::uint32_t connections_per_address_max = 256;
  std::uint64_t memory_bytes_max = 8 << 20;  // of requests and responses in flight; at least one of each
  std::uint32_t header_bytes_max = 8 << 10;
  std::uint32_t body_bytes_max = 1 << 20;
  std::int64_t timeout_us = 10'000'000;      // for a client to send a request or read a response
  std::int64_t answer_us_max = 10'400'000;   // from a request's last byte to its response
  std::int64_t reload_us_max = 120'400'000;  // same for a reload; the router's own bound and a margin
  std::int64_t tenant_pause_us = 20'000;     // for which a tenant's requests are refused unread
  ServerCertificate certificate;
  std::shared_ptr<const ApiKeys> keys;  // every request needs a key, except is_open(); null = no keys
  ServedHosts hosts;                    // Host names of requests, except health checks
  ServedHosts rpc_hosts;                // same of requests that come to rpc_address
  RateLimit tenant_limit;               // of each tenant, unless its key has other limits
  ServerLimits limits;
  ModelText text = {};                 // of the model
  std::vector<Address> actors;         // actors that /v1/cluster asks
  std::vector<Address> must_be_ready;  // actors that /v2/health/ready asks; empty = all of `actors`
  std::function<std::string()>
      obstacle;  // returns why this node is not ready, whatever its actors say; "" = no such reason
  // Returns why this node is ready, but serves worse than it should, beside what its actors say; null = no
  // such reasons.
  std::function<std::vector<std::string>()> degraded;
  Address router;
  // Several models, each with its router; empty = one model, described by the fields above.
  std::vector<ServerModel> models;
  ModelActorIds actor_ids;                         // per-model actor ids
  std::function<std::string(MetricForm)> metrics;  // text of /metrics; null = the server's own registry
  std::vector<std::string> model_names;            // of the one model, beside its version (model.name)
  std::string version;                             // of the program, shown in /v2
  // names of the cluster's nodes; a node without one is shown by number
  std::map<NodeId, std::string> names;
  AccessLog access_log = AccessLog::off;  // the setting has another default
  double sampled_share = 0;  // fraction of requests to record among those whose client sent no trace
  // Called for each recorded request once it is answered, on the server's thread; it must return
  // quickly.
  std::function<void(const ObservedRequest&)> on_sampled;
  // Request ids start after this; larger ids were never used before towards that router.
  RequestId last_id = 0;
};

class HttpServer {
 public:
  // sends a message to the actors; called on the server's thread
  using Post = std::function<void(Address to, Message)>;

  // Binds the port (throws ServerError); connections wait until `open`.
  HttpServer(HttpServerConfig config, Post post, MetricRegistry& metrics, LogSink log = {});
  ~HttpServer();

  void open();    // serves on a thread of its own
  void retire();  // reports not ready from now on, and keeps serving
  // Uses another certificate for new connections and other keys for new requests. Throws
  // std::runtime_error; then nothing changes.
  void renew(const ServerCertificate& certificate, std::shared_ptr<const ApiKeys> keys);
  void renew(const ServerCertificate& certificate);  // keeps the keys
  void renew(std::shared_ptr<const ApiKeys> keys);
  // Replaces the actors and names of the cluster. Callable from any thread.
  void follow(std::vector<Address> actors, std::map<NodeId, std::string> names);
  // Calls `action` on the server's thread, if that still runs. Callable from any thread.
  void run(std::function<void()> action);
  // Answers waiting clients with 503, closes every connection and ends the thread. Posts nothing
  // afterwards. A second call does nothing.
  void close();

  const std::string& address() const;  // the IP address that it listens on
  std::uint16_t port() const;
  std::uint16_t rpc_port() const;  // 0 = there is no further address
  // takes an actor's answer to a message that the server posted; callable from any thread
  void deliver(Message answer);

 private:
  struct Answer;           // contents of a response
  struct Server;           // state of the server's one thread
  struct Exchange;         // one request and its answer
  struct Session;          // one connection
  struct Http2Connection;  // what a connection over HTTP/2 has besides
  std::unique_ptr<Server> server_;
};

}  // namespace troupe::server
