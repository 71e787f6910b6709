// Replaces grpc_door.cc in builds without gRPC.
#include "server/grpc/grpc_door.h"

namespace troupe::server {

struct GrpcDoor::Server {};

bool has_grpc() { return false; }

GrpcDoor::GrpcDoor(const GrpcConfig&, Ask) {
  throw DoorError(
      "grpc.listen is set, but this program was built without gRPC; expected no grpc.listen, or a build "
      "with libgrpc++-dev, libprotobuf-dev and protobuf-compiler-grpc installed");
}
GrpcDoor::~GrpcDoor() = default;
void GrpcDoor::renew(const DoorCertificate&) {}
std::uint16_t GrpcDoor::port() const { return 0; }

}  // namespace troupe::server
