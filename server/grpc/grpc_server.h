#pragma once
// gRPC server for rankings, scores and generations (troupe.proto), on its own port. After parsing,
// a call is handled like an HTTP request. A build without gRPC uses grpc_server_none.cc.
//
// The limits are those of the HTTP server: bytes of a message (none is decompressed) and of
// metadata, list elements before they are copied, and as many unanswered calls as connections. The
// memory limit applies once to gRPC's own buffers and once to what is kept of the calls.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/http/http_server.h"

namespace troupe::server {

struct GrpcConfig {
  std::string listen;  // e.g. "127.0.0.1:8081"; port 0 = any free port
  ServerCertificate certificate;
  std::uint32_t message_bytes_max = 1 << 20, metadata_bytes_max = 8 << 10, calls_max = 1024;
  std::uint64_t memory_bytes_max = 8 << 20;
  // of a connection and its handshake; a connection lives 60 times as long
  std::int64_t idle_us_max = 10'000'000;
  // grace period for calls on a connection that has reached its age
  std::int64_t answer_us_max = 10'400'000;
  ServerLimits limits = {};  // of the one model; with several models each has its own
  std::vector<ServerModel> models = {};
};

class GrpcServer {
 public:
  using Ask = std::function<void(ServerCall call, OnServerReply then)>;

  GrpcServer(const GrpcConfig& config, Ask ask);  // throws ServerError
  ~GrpcServer();  // waits for the last answers, so the actors must have stopped or still answer

  std::uint16_t port() const;
  // Uses another certificate with its key for new connections; the HTTP server has already
  // validated it.
  void renew(const ServerCertificate& certificate);

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace troupe::server
