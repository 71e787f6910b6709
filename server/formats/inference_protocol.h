#pragma once
// Reads and writes the Open Inference Protocol (version 2, KServe's), where texts and numbers are
// named tensors. Pure.
//
//   a ranker's inputs      user BYTES [1], or its own history; candidates BYTES [n]; top_k INT64 [1];
//                          optional: request_timestamp INT64 [1] and scenario INT64 [1]
//   an own history         history BYTES [n] or tokens INT64 [n], and each feature that the model reads of
//                          events, such as timestamps INT64 [n]
//   its outputs            items BYTES, scores FP64, probabilities FP64, in the order of the candidates;
//                          with top_k that many, best first
//   a generator's inputs   user BYTES [1], or its own history; top_k, width INT64 [1]
//   its outputs            items BYTES, log_probabilities FP64, best first
//
// Data may be nested according to the shape. The supported `parameters` members are a ranker's policy
// and arrangement, unknown_user, and `timeout` (microseconds) and `priority` (0) of all requests. Data of the
// binary extension of HTTP is refused by name; server/grpc/grpc_inference.h reads the protocol's messages.
// `outputs` may name the wanted outputs, each once. Refusals are those of json.h with `where` as
// "inputs[1].data[2]", and unknown_output, which names the outputs that there are.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/actor/messages.h"
#include "server/formats/own_names.h"
#include "server/formats/row_bodies.h"

namespace troupe::server {

struct InferRequest {
  std::variant<RankRequest, GenerateRequest> request;  // without tenant
  std::string id;                                      // the client's; "" = none
  std::vector<std::string> outputs;                    // wanted outputs; empty = all
  OwnNames names = {};  // where the body has candidates and the lists of a history: "inputs[1].data"
};
std::variant<InferRequest, Refusal> read_infer(std::string_view body, std::uint32_t candidates_max,
                                               const RowLimits& rows);

// A request in either form, JSON or messages, before its names and values are checked.
struct InferTensor {
  std::string name, datatype;
  std::string where, data_where;          // "inputs[1]" and "inputs[1].data", for refusals
  std::vector<nlohmann::json> data = {};  // texts or numbers, flattened
};
struct InferParts {
  std::vector<InferTensor> inputs;
  std::string id;
  nlohmann::json outputs, parameters;  // a list and an object; null = none
};
std::variant<InferRequest, Refusal> make_infer(InferParts parts, std::uint32_t candidates_max,
                                               const RowLimits& rows);
// Numbers, texts and names that a request may have in all.
std::size_t infer_values_max(std::uint32_t candidates_max, const RowLimits& rows);
inline constexpr std::uint32_t infer_inputs_max = 64;

// Both throw Refusal. Elements beyond 64 bits count as 2^64 - 1.
std::uint64_t shape_elements(const nlohmann::json& shape, const std::string& where);
void reject_if_other_size(std::uint64_t shape_elements, const InferTensor& tensor);

struct InferOutput {
  const char *name, *datatype;
  std::vector<std::string> texts = {};  // of BYTES
  std::vector<double> numbers = {};     // of FP64
  std::size_t size() const { return texts.size() + numbers.size(); }
};
// Returns the wanted outputs.
std::vector<InferOutput> infer_outputs(const InferRequest& asked, const Message& reply);
std::string infer_version(const Message& reply);  // version of the model that answered; "" = another answer
// Returns "cold" if the user is not stored and was answered as one without events. The answer has it as
// parameter "unknown_user".
std::string infer_unknown_user(const Message& reply);

// `model`: name that the client uses.
std::string infer_body(const InferRequest& asked, const Message& reply, const std::string& model);

std::string server_metadata(std::string_view version);
// `serves`: as in /v1/models.
std::string model_metadata(const std::string& model, const std::string& version, std::string_view serves);

}  // namespace troupe::server
