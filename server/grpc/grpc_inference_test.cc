#include "server/grpc/grpc_inference.h"

#include <doctest/doctest.h>

#include <bit>
#include <map>

#include "server/formats/inference_protocol.h"
#include "server/grpc/grpc_framing.h"
#include "server/grpc/grpc_service.h"
#include "server/testing/grpc_bytes.h"

using namespace troupe;
using namespace troupe::server;

namespace grpc_inference_test {

using namespace troupe::server::grpc_test;

const std::string service = "/inference.GRPCInferenceService/";

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}
std::string raw_texts(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += little_endian(text.size(), 4) + text;
  return out;
}
std::string head_of(const std::string& name, const std::string& datatype, std::uint64_t length) {
  return text_field(1, name) + text_field(2, datatype) + text_field(3, varint(length));
}
std::string texts_of(const std::string& name, const std::vector<std::string>& texts) {
  std::string contents;
  for (const std::string& text : texts) contents += text_field(8, text);
  return text_field(5, head_of(name, "BYTES", texts.size()) + text_field(5, contents));
}
std::string number_of(const std::string& name, std::uint64_t value) {
  return text_field(5, head_of(name, "INT64", 1) + text_field(5, text_field(3, varint(value))));
}
std::string without_data(const std::string& name, const std::string& datatype, std::uint64_t length) {
  return text_field(5, head_of(name, datatype, length));
}
std::string parameter(const std::string& name, const std::string& value) {
  return text_field(4, text_field(1, name) + text_field(2, value));
}
const std::string model = text_field(1, "m"), user = texts_of("user", {"ana"}),
                  candidates = texts_of("candidates", {"a", "b"});

ServerCall call_of(const std::string& message, std::int64_t budget_us = 0, const GrpcConfig& config = {}) {
  auto read = read_infer_call(message, config, budget_us);
  REQUIRE(std::holds_alternative<ServerCall>(read));
  return std::get<ServerCall>(std::move(read));
}
RankRequest ranking_of(const std::string& message, std::int64_t budget_us = 0) {
  const ServerCall call = call_of(message, budget_us);
  if (call.fault) FAIL(call.fault->code << " " << call.fault->where);
  return std::get<RankRequest>(call.asked.message);
}
// "code where" of what is wrong; "" = nothing.
std::string fault(const std::string& message, const GrpcConfig& config = {}) {
  const auto read = read_infer_call(message, config, 0);
  if (const auto* refusal = std::get_if<Refusal>(&read)) return refusal->code + " " + refusal->where;
  const ServerCall& call = std::get<ServerCall>(read);
  return call.fault ? call.fault->code + " " + call.fault->where : "";
}

RankReply reply_of() {
  RankReply reply;
  reply.model_version = "v1";
  reply.items = {{.id = "b", .score = 2.5, .probability = 0.75},
                 {.id = "a", .score = 1, .probability = 0.25}};
  return reply;
}

struct Called {
  std::unique_ptr<RpcCall> call;
  RpcActions last;
  std::string trailer(const std::string& name) const {
    for (const auto& [key, value] : last.trailers.value_or(Http2Fields{}))
      if (key == name) return value;
    return "";
  }
};
Called call_method(const std::string& method, const std::string& message) {
  Called made{GrpcService({}).find_call(
                  {{":method", "POST"}, {":path", service + method}, {"content-type", "application/grpc"}}),
              {}};
  made.last = made.call->begin();
  if (!made.last.trailers) made.last = made.call->receive(grpc_message(message), 0);
  if (!made.last.trailers) made.last = made.call->end(1'000);
  return made;
}

TEST_SUITE("gRPC inference") {
  TEST_CASE("gRPC inference: typed and raw contents become the ranking that JSON becomes") {
    const std::string options = parameter("policy", text_field(3, "item")) + text_field(3, "42");
    const std::string typed = model + options + user + candidates + number_of("top_k", 2) +
                              number_of("request_timestamp", 881'250'949);
    const std::string raw = model + options + without_data("user", "BYTES", 1) +
                            without_data("candidates", "BYTES", 2) + without_data("top_k", "INT32", 1) +
                            without_data("request_timestamp", "UINT64", 1) +
                            text_field(7, raw_texts({"ana"})) + text_field(7, raw_texts({"a", "b"})) +
                            text_field(7, little_endian(2, 4)) + text_field(7, little_endian(881'250'949, 8));
    const auto json = read_infer(
        R"({"id":"42","parameters":{"policy":"item"},"inputs":[
             {"name":"user","shape":[1],"datatype":"BYTES","data":["ana"]},
             {"name":"candidates","shape":[2],"datatype":"BYTES","data":["a","b"]},
             {"name":"top_k","shape":[1],"datatype":"INT64","data":[2]},
             {"name":"request_timestamp","shape":[1],"datatype":"INT64","data":[881250949]}]})",
        3, {5});
    const auto& expected = std::get<RankRequest>(std::get<InferRequest>(json).request);
    for (const std::string& message : {typed, raw}) {
      const RankRequest asked = ranking_of(message);
      CHECK(asked.user == expected.user);
      CHECK(asked.candidates == expected.candidates);
      CHECK(asked.top_k == expected.top_k);
      CHECK(asked.policy == expected.policy);
      CHECK(asked.request_timestamp == expected.request_timestamp);
      CHECK(call_of(message).model == "m");
      CHECK(call_of(message).kind.empty());
    }
    CHECK(ranking_of(model + texts_of("history", {"x"}) + candidates).history ==
          std::vector<std::string>{"x"});
    const ServerCall generates = call_of(model + user + number_of("width", 4));
    CHECK(std::get<GenerateRequest>(generates.asked.message).width == 4);
  }

  TEST_CASE("gRPC inference: a deadline and the parameter timeout bound the request, the shorter one") {
    const std::string ranks = model + user + candidates;
    CHECK(ranking_of(ranks).budget_us == 0);
    CHECK(ranking_of(ranks, 7'000).budget_us == 7'000);
    CHECK(ranking_of(ranks + parameter("timeout", number_field(2, 900)), 7'000).budget_us == 900);
    CHECK(ranking_of(ranks + parameter("timeout", number_field(5, 9'000)), 7'000).budget_us == 7'000);
    CHECK(ranking_of(ranks + parameter("priority", number_field(5, 0))).budget_us == 0);
  }

  TEST_CASE("gRPC inference: an answer has the form of its request") {
    const ServerCall typed = call_of(model + text_field(3, "42") + user + candidates);
    const auto answer = [](const ServerCall& call, const Message& reply) {
      return std::get<std::string>(call.asked.body(reply, {.name = "m"}, 0));
    };
    const auto packed = [](double first, double second) {
      return text_field(7, little_endian(std::bit_cast<std::uint64_t>(first), 8) +
                               little_endian(std::bit_cast<std::uint64_t>(second), 8));
    };
    const auto output = [](int field, const std::string& name, const std::string& datatype,
                           const std::string& contents) {
      return text_field(field,
                        head_of(name, datatype, 2) + (contents.empty() ? "" : text_field(5, contents)));
    };
    const std::string begins = text_field(1, "m") + text_field(2, "v1");
    // In the order of the candidates.
    CHECK(answer(typed, reply_of()) ==
          begins + text_field(3, "42") +
              output(5, "items", "BYTES", text_field(8, "a") + text_field(8, "b")) +
              output(5, "scores", "FP64", packed(1, 2.5)) +
              output(5, "probabilities", "FP64", packed(0.25, 0.75)));
    const ServerCall raw =
        call_of(model + without_data("user", "BYTES", 1) + without_data("candidates", "BYTES", 2) +
                text_field(6, text_field(1, "scores")) + text_field(6, text_field(1, "items")) +
                text_field(7, raw_texts({"ana"})) + text_field(7, raw_texts({"a", "b"})));
    CHECK(answer(raw, reply_of()) ==
          begins + output(5, "items", "BYTES", "") + output(5, "scores", "FP64", "") +
              text_field(6, raw_texts({"a", "b"})) +
              text_field(6, little_endian(std::bit_cast<std::uint64_t>(1.0), 8) +
                                little_endian(std::bit_cast<std::uint64_t>(2.5), 8)));
    RankReply cold{.model_version = "v1", .unknown_user = "cold"};  // its user is not stored
    CHECK(answer(typed, cold)
              .starts_with(begins + text_field(3, "42") + parameter("unknown_user", text_field(3, "cold"))));
    CHECK(std::holds_alternative<Refusal>(typed.asked.body(GenerateReply{}, {.name = "m"}, 0)));
    const auto other = typed.asked.body(reply_of(), {.name = "other"}, 0);
    CHECK(std::get<Refusal>(other).code == "unknown_model");
  }

  TEST_CASE("gRPC inference: tensors that JSON would be refused for are refused with the same codes") {
    CHECK(fault(user + candidates) == "missing_field model_name");
    CHECK(fault(model) == "missing_field inputs");
    CHECK(fault(model + text_field(5, text_field(1, "user"))) == "missing_field inputs[0].datatype");
    CHECK(fault(model + text_field(5, text_field(2, "BYTES"))) == "missing_field inputs[0].name");
    CHECK(fault(model + without_data("user", "BYTES", 1)) == "missing_field inputs[0].contents");
    CHECK(fault(model + user + user) == "bad_message inputs[1]");
    CHECK(fault(model + user + texts_of("colour", {"red"})) == "unknown_field inputs[1].name");
    CHECK(fault(model + text_field(5, head_of("user", "BYTES", 2) + text_field(5, text_field(8, "ana")))) ==
          "wrong_type inputs[0].shape");
    CHECK(fault(model + text_field(5, head_of("user", "BYTES", -1) + text_field(5, text_field(8, "ana")))) ==
          "wrong_type inputs[0].shape");
    CHECK(fault(model + text_field(5, head_of("user", "BYTES", 1) + text_field(5, text_field(3, "\1")))) ==
          "wrong_type inputs[0].contents.int64_contents");
    CHECK(fault(model + text_field(5, head_of("user", "INT64", 1) + text_field(5, text_field(3, "\1")))) ==
          "wrong_type inputs[0].datatype");
    CHECK(fault(model + text_field(5, head_of("user", "FP16", 1) + text_field(5, ""))) ==
          "wrong_type inputs[0].datatype");
    CHECK(fault(model + texts_of("user", {"\xe9"})) == "wrong_type inputs[0].contents.bytes_contents[0]");
    CHECK(fault(model + texts_of("user", {std::string("a\0", 2)})) ==
          "wrong_type inputs[0].contents.bytes_contents[0]");
    CHECK(fault(model + user + number_of("top_k", -1)) == "wrong_type inputs[1].contents.int64_contents[0]");
    CHECK(fault(model + user + candidates + text_field(6, text_field(1, "logits"))) ==
          "unknown_output outputs[0]");
    CHECK(fault(model + user + candidates +
                text_field(6, text_field(1, "items") + text_field(2, text_field(1, "classification")))) ==
          "unknown_field outputs[0].parameters.classification");
    CHECK(fault(model + user + candidates + parameter("sequence_id", number_field(2, 1))) ==
          "unknown_field parameters.sequence_id");
    CHECK(fault(model + user + candidates + parameter("policy", number_field(2, 1))) ==
          "wrong_type parameters.policy");
    CHECK(fault(model + user + candidates + parameter("policy", text_field(3, "item")) +
                parameter("policy", text_field(3, "user"))) == "bad_message parameters");
  }

  TEST_CASE("gRPC inference: raw contents that do not fit their inputs are refused") {
    const std::string raw_user = without_data("user", "BYTES", 1);
    CHECK(fault(model + raw_user + without_data("candidates", "BYTES", 1) +
                text_field(7, raw_texts({"ana"}))) == "wrong_type raw_input_contents");
    CHECK(fault(model + user + text_field(7, raw_texts({"ana"}))) == "wrong_type inputs[0].contents");
    CHECK(fault(model + raw_user + text_field(7, raw_texts({"ana", "bob"}))) == "wrong_type inputs[0].shape");
    CHECK(fault(model + raw_user + text_field(7, raw_texts({"ana"}) + "x")) ==
          "wrong_type raw_input_contents[0]");
    CHECK(fault(model + raw_user + text_field(7, "\xff\xff\xff\xff")) == "wrong_type raw_input_contents[0]");
    CHECK(fault(model + raw_user + text_field(7, raw_texts({"\xe9"}))) ==
          "wrong_type raw_input_contents[0][0]");
    CHECK(fault(model + without_data("user", "BF16", 1) + text_field(7, "ab")) ==
          "wrong_type inputs[0].datatype");
    const auto top_k = [](const std::string& datatype, const std::string& bytes) {
      return fault(model + without_data("user", "BYTES", 1) + without_data("top_k", datatype, 1) +
                   text_field(7, raw_texts({"ana"})) + text_field(7, bytes));
    };
    CHECK(top_k("INT16", little_endian(3, 2)).empty());
    CHECK(top_k("INT16", little_endian(-3, 2)) == "wrong_type raw_input_contents[1][0]");
    CHECK(top_k("INT64", little_endian(3, 4)) == "wrong_type raw_input_contents[1]");
    CHECK(top_k("UINT64", little_endian(-1, 8)) == "wrong_type raw_input_contents[1][0]");
    CHECK(top_k("FP64", little_endian(std::bit_cast<std::uint64_t>(3.0), 8)) == "wrong_type inputs[1]");
  }

  TEST_CASE("gRPC inference: fields are checked at every depth and counted before the message is parsed") {
    CHECK(fault("\xff\xff") == "bad_message message");
    CHECK(fault(model + text_field(5, "\xff\xff")) == "bad_message inputs[0]");
    CHECK(fault(text_field(1, "\xe9") + user) == "bad_message message");
    CHECK(fault(model + model + user) == "bad_message model_name");
    CHECK(fault(model + number_field(99, 1)) == "unknown_field field 99");
    CHECK(fault(model + number_field(3, 1)) == "unknown_field id");
    CHECK(fault(model + user + text_field(5, number_field(9, 1))) == "unknown_field inputs[1].field 9");
    CHECK(fault(model + user + text_field(5, text_field(5, number_field(8, 1)))) ==
          "unknown_field inputs[1].contents.bytes_contents");
    CHECK(fault(model + parameter("policy", text_field(3, "item") + number_field(1, 1))) ==
          "bad_message parameters[0].value.bool_param");
    GrpcConfig small;
    small.limits.candidates_max = 2, small.limits.history_events_max = 1;
    const auto ranks = [&](std::size_t n) {
      return model + user + texts_of("candidates", std::vector<std::string>(n, "a"));
    };
    CHECK(fault(ranks(2), small).empty());
    CHECK(fault(ranks(3), small) == "too_many_candidates inputs[1]");
    CHECK(fault(ranks(300), small) == "too_many_values inputs");
    CHECK(fault(model + text_field(5, text_field(5, text_field(1, std::string(300, '\1')))), small) ==
          "too_many_values inputs");
    CHECK(fault(model + without_data("user", "BYTES", 65'535) + text_field(7, std::string(4 * 300, '\0')),
                small) == "too_many_values inputs");
    std::string inputs;
    for (int i = 0; i < 65; ++i) inputs += texts_of("user", {"a"});
    CHECK(fault(model + inputs) == "too_many_inputs inputs");
    small.models = {{.name = "m", .serves = "rank", .limits = {.candidates_max = 4}}};
    CHECK(fault(ranks(4), small).empty());
    CHECK(fault(ranks(5), small) == "too_many_candidates inputs[1]");
  }

  TEST_CASE("gRPC inference: liveness and readiness need no key, and readiness is the server's") {
    const Called live = call_method("ServerLive", "");
    CHECK_FALSE(live.call->needs_key());
    CHECK(live.last.bytes == grpc_message(number_field(1, 1)));
    CHECK(live.trailer("grpc-status") == "0");
    const Called ready = call_method("ServerReady", "");
    CHECK_FALSE(ready.call->needs_key());
    CHECK(ready.last.asks_readiness);
    CHECK(ready.call->is_ready(true).bytes == grpc_message(number_field(1, 1)));
    CHECK(ready.call->is_ready(false).bytes == grpc_message(""));
    CHECK(call_method("ServerLive", number_field(1, 1)).trailer("troupe-code") == "unknown_field");
  }

  TEST_CASE("gRPC inference: metadata and a model's readiness are those of HTTP") {
    Called server = call_method("ServerMetadata", "");
    CHECK(server.call->needs_key());
    CHECK(std::get<ServerQuestion>(server.last.question.value()) == ServerQuestion::server);
    CHECK(server.call->replied({.body = server_metadata("1.2")}, 0).bytes ==
          grpc_message(text_field(1, "troupe") + text_field(2, "1.2")));
    Called metadata = call_method("ModelMetadata", text_field(1, "m") + text_field(2, "7"));
    const auto asked = std::get<ModelQuestion>(metadata.last.question.value());
    CHECK(asked.model == "m");
    CHECK_FALSE(asked.ready);
    const auto tensor = [](int field, const std::string& name, const std::string& type,
                           std::uint64_t length) { return text_field(field, head_of(name, type, length)); };
    CHECK(metadata.call->replied({.body = model_metadata("m", "v1", "generate")}, 0).bytes ==
          grpc_message(text_field(1, "m") + text_field(2, "v1") + text_field(3, "troupe") +
                       tensor(4, "user", "BYTES", 1) + tensor(4, "top_k", "INT64", 1) +
                       tensor(5, "items", "BYTES", -1) + tensor(5, "log_probabilities", "FP64", -1)));
    Called ready = call_method("ModelReady", text_field(1, "m"));
    CHECK(std::get<ModelQuestion>(ready.last.question.value()).ready);
    CHECK(ready.call->replied({.body = "{}"}, 0).bytes == grpc_message(number_field(1, 1)));
    const auto refused = [&](RefusalKind kind, const std::string& code) {
      ready.last = ready.call->replied({kind, R"({"error":{}})", code}, 0);
      return ready.trailer("grpc-status");
    };
    CHECK(refused(RefusalKind::unavailable, "not_ready") == "0");
    CHECK(ready.last.bytes == grpc_message(""));
    CHECK(refused(RefusalKind::not_found, "unknown_model") == "5");
    for (const char* method : {"ModelReady", "ModelMetadata"})
      CHECK(call_method(method, "").trailer("troupe-code") == "missing_field");
  }

  TEST_CASE("gRPC inference: streams are refused by name") {
    const Called stream = call_method("ModelStreamInfer", "");
    CHECK(stream.trailer("grpc-status") == "12");
    CHECK(stream.trailer("grpc-message").find("ModelStreamInfer is not served") != std::string::npos);
    CHECK(stream.call->route() == service + "ModelStreamInfer");
    CHECK(call_method("ModelConfig", "").trailer("grpc-status") == "12");
    CHECK(call_method("ModelConfig", "").call->route() == "other");
  }
}

}  // namespace grpc_inference_test
