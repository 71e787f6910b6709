#pragma once
// Serves gRPC over the HTTP server's HTTP/2: rankings, scores and generations (troupe.proto), the Open
// Inference Protocol (open_inference.proto), grpc.health.v1.Health/Check and reflection (v1 and v1alpha).
// After parsing, a call is handled like an HTTP request. Pure.
//
// The limits are those of the HTTP server: bytes of a message (none is decompressed), of metadata,
// and list elements, which are counted before they are parsed.
#include <memory>
#include <string_view>

#include "server/grpc/grpc_messages.h"
#include "server/http/rpc_service.h"

namespace troupe::server {

class GrpcService final : public RpcService {
 public:
  explicit GrpcService(GrpcConfig config);

  // Returns a call if the content type is application/grpc or application/grpc+proto.
  std::unique_ptr<RpcCall> find_call(const Http2Fields& head) const override;
  const Http2Fields& answer_fields() const override;

 private:
  const std::shared_ptr<const GrpcConfig> config_;  // calls may outlive the service
};

}  // namespace troupe::server
