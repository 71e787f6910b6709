#pragma once
// Messages of the Open Inference Protocol (open_inference.proto): requests become what their HTTP form
// becomes, and answers become messages. Pure. Only this file's .cc and grpc_messages.cc include protobuf.
//
// Data is in `contents`, in the field of its datatype, or in `raw_input_contents`; the answer has the same
// form. A message's fields are checked at every depth, and its elements counted, before it is parsed.
// Refusals are those of server/formats/inference_protocol.h with `where` as
// "inputs[1].contents.bytes_contents[2]" or "raw_input_contents[1][2]".
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "server/grpc/grpc_messages.h"

namespace troupe::server {

std::variant<ServerCall, Refusal> read_infer_call(std::string_view message, const GrpcConfig& config,
                                                  std::int64_t budget_us);
// Reads a request for a model's metadata, or for its readiness.
std::variant<ModelQuestion, Refusal> read_model_question(std::string_view message, bool ready);
// Reads a request without fields: ServerLive, ServerReady, ServerMetadata.
std::optional<Refusal> reject_if_not_empty(std::string_view message);

std::string write_ready_reply(bool is_ready);  // also of ServerLive: these messages have one such field
// `body`: the same answer over HTTP.
std::string write_server_metadata(std::string_view body);
std::string write_model_metadata(std::string_view body);

}  // namespace troupe::server
