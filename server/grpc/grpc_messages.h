#pragma once
// gRPC's messages and what they mean: requests of troupe.proto become requests for the router, and its
// replies become messages; health and reflection. Pure. Only this file's .cc and grpc_inference.cc include
// protobuf, which compiles slowly.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/http/model_choice.h"
#include "server/http/rpc_service.h"

namespace troupe::server {

struct GrpcConfig {
  std::uint32_t message_bytes_max = 1 << 20;
  ServerLimits limits = {};  // of the one model; with several models each has its own
  std::vector<ServerModel> models = {};
};

enum class GrpcMethod : std::uint8_t { rank, score, generate };

// Parses a request. Its lists are counted before memory is taken for their elements. A message that is
// not one of troupe.proto, or has a string that is not UTF-8, is refused; a list over its limit or an
// unknown option is the call's `fault`. `message_budget_us`: 0 = the request's own.
std::variant<ServerCall, Refusal> read_grpc_call(GrpcMethod method, std::string_view message,
                                                 const GrpcConfig& config, std::int64_t budget_us);

const ServerLimits& limits_of(const ServerCall& call,
                              const GrpcConfig& config);  // of the model that it names
void set_budget(Message& message, std::int64_t left_us);  // unless its own is less; 0 = no deadline

// Health: the service that is asked; nullopt = not such a message.
std::optional<std::string> read_health_request(std::string_view message);
std::string write_health_reply(bool is_serving);
bool has_health(std::string_view service);  // "" = the whole server

// Reflection: the answer to one request; nullopt = not such a message.
std::optional<std::string> answer_reflection(std::string_view message);

// Stops protobuf from writing to standard error: it would repeat what clients send, without a bound.
void silence_protobuf();

}  // namespace troupe::server
