// Replaces grpc_server.cc in builds without gRPC: starting a gRPC server fails with an error that
// says what is missing.
#include "server/grpc/grpc_server.h"

namespace troupe::server {

struct GrpcServer::Server {};

GrpcServer::GrpcServer(const GrpcConfig&, Ask) {
  throw ServerError(
      "grpc.listen is set, but this program was built without gRPC; expected no grpc.listen, or a build "
      "with libgrpc++-dev, libprotobuf-dev and protobuf-compiler-grpc installed");
}
GrpcServer::~GrpcServer() = default;
void GrpcServer::renew(const ServerCertificate&) {}
std::uint16_t GrpcServer::port() const { return 0; }

}  // namespace troupe::server
