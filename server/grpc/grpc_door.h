#pragma once
// Rankings, scores and generations over gRPC (troupe.proto), on a port of its own and from there on the front
// door's way. A build without gRPC has none (grpc_door_none.cc).
//
// Bounds are the front door's: bytes of a message (none is unpacked) and of metadata, elements of lists
// before they are copied, calls without an answer as many as connections, and their memory: gRPC's own, and
// as much again of what is kept of them.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/http/front_door.h"

namespace troupe::server {

struct GrpcConfig {
  std::string listen;  // "127.0.0.1:8081"; port 0: any free one
  DoorCertificate certificate;
  std::uint32_t message_bytes_max = 1 << 20, metadata_bytes_max = 8 << 10, calls_max = 1024;
  std::uint64_t memory_bytes_max = 8 << 20;
  std::int64_t idle_us_max = 10'000'000;    // of a connection; of its handshake, and a 60th of its age
  std::int64_t answer_us_max = 10'400'000;  // of calls on a connection that is too old for more
  DoorLimits limits = {};                   // of the one model, or each has its own
  std::vector<DoorModel> models = {};
};

bool has_grpc();  // whether this program was built with it

class GrpcDoor {
 public:
  using Ask = std::function<void(DoorCall call, OnDoorReply then)>;

  GrpcDoor(const GrpcConfig& config, Ask ask);  // throws DoorError
  ~GrpcDoor();  // waits for the last answers; whoever answers has to have stopped, or to answer still

  std::uint16_t port() const;
  // What new connections are shown from now on: a certificate with its key, which the front door has looked
  // at.
  void renew(const DoorCertificate& certificate);

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace troupe::server
