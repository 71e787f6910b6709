// Decides what becomes of a gRPC call, from its head to its status.
#include "server/grpc/grpc_service.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "server/formats/http_refusal.h"
#include "server/grpc/grpc_framing.h"
#include "server/grpc/grpc_inference.h"

namespace troupe::server {
namespace {

constexpr std::size_t metadata_text_max = 512, status_text_max = 1024;
constexpr std::size_t unsent_max = 256 << 10;    // of answers to a stream of requests
constexpr std::int64_t day_us = 86'400'000'000;  // a longer deadline is none
constexpr std::string_view content_type = "application/grpc";

enum class Kind : std::uint8_t {
  unknown,
  rank,
  score,
  generate,
  health,
  reflection,
  // of the Open Inference Protocol
  server_live,
  server_ready,
  server_metadata,
  model_ready,
  model_metadata,
  infer,
  stream_infer  // refused by name
};

struct MethodName {
  std::string_view path;
  Kind kind;
};
constexpr std::array methods{
    MethodName{"/troupe.v1.Troupe/Rank", Kind::rank},
    MethodName{"/troupe.v1.Troupe/Score", Kind::score},
    MethodName{"/troupe.v1.Troupe/Generate", Kind::generate},
    MethodName{"/inference.GRPCInferenceService/ServerLive", Kind::server_live},
    MethodName{"/inference.GRPCInferenceService/ServerReady", Kind::server_ready},
    MethodName{"/inference.GRPCInferenceService/ServerMetadata", Kind::server_metadata},
    MethodName{"/inference.GRPCInferenceService/ModelReady", Kind::model_ready},
    MethodName{"/inference.GRPCInferenceService/ModelMetadata", Kind::model_metadata},
    MethodName{"/inference.GRPCInferenceService/ModelInfer", Kind::infer},
    MethodName{"/inference.GRPCInferenceService/ModelStreamInfer", Kind::stream_infer},
    MethodName{"/grpc.health.v1.Health/Check", Kind::health},
    MethodName{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Kind::reflection},
    MethodName{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Kind::reflection}};

std::string_view value_of(const Http2Fields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Http2Fields::value_type::first);
  return found == fields.end() ? std::string_view() : std::string_view(found->second);
}

GrpcCode code_of(RefusalKind kind) {
  switch (kind) {
    case RefusalKind::unauthenticated:
      return GrpcCode::unauthenticated;
    case RefusalKind::forbidden:
      return GrpcCode::permission_denied;
    case RefusalKind::not_found:
      return GrpcCode::not_found;
    case RefusalKind::precondition_failed:
    case RefusalKind::unprocessable:
      return GrpcCode::failed_precondition;
    case RefusalKind::over_quota:
    case RefusalKind::header_too_large:
      return GrpcCode::resource_exhausted;
    case RefusalKind::unsupported:
    case RefusalKind::unsupported_media:
    case RefusalKind::wrong_method:
      return GrpcCode::unimplemented;
    case RefusalKind::internal:
      return GrpcCode::internal;
    case RefusalKind::unavailable:
      return GrpcCode::unavailable;
    case RefusalKind::deadline_exceeded:
      return GrpcCode::deadline_exceeded;
    default:
      return GrpcCode::invalid_argument;
  }
}

Http2Fields ok_trailers() { return {{"grpc-status", "0"}}; }

// Error code and place are trailing metadata, which are ASCII.
Http2Fields trailers_of(GrpcCode status, const Refusal& refusal) {
  Http2Fields fields{{"grpc-status", std::to_string(static_cast<unsigned>(status))},
                     {"grpc-message",
                      grpc_status_text(refusal.where + ": " + refusal.what + "; expected " + refusal.expected,
                                       status_text_max)}};
  const auto is_plain = [](std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
  };
  if (is_plain(refusal.code)) fields.emplace_back("troupe-code", refusal.code);
  if (is_plain(refusal.where))
    fields.emplace_back("troupe-where", cut_text(refusal.where, metadata_text_max));
  if (refusal.retry_after_s > 0) fields.emplace_back("retry-after-s", std::to_string(refusal.retry_after_s));
  return fields;
}

// Reads a refusal back from its JSON.
Refusal refusal_of(const ServerReply& reply) {
  const auto body = nlohmann::json::parse(reply.body, nullptr, false);
  const auto text = [&](const char* name) {
    const bool has = body.is_object() && body.contains("error") && body["error"].is_object() &&
                     body["error"].contains(name) && body["error"][name].is_string();
    return has ? body["error"][name].get<std::string>() : std::string();
  };
  return {*reply.refused,   reply.code,
          text("message"),  text("where"),
          text("expected"), static_cast<std::uint16_t>(std::min(reply.retry_after_s, 0xffffU))};
}

class GrpcCall final : public RpcCall {
 public:
  GrpcCall(std::shared_ptr<const GrpcConfig> config, const Http2Fields& head)
      : config_(std::move(config)), messages_(config_->message_bytes_max) {
    const std::string_view path = value_of(head, ":path");
    const auto found = std::ranges::find(methods, path, &MethodName::path);
    if (found != methods.end()) method_ = *found;
    is_post_ = value_of(head, ":method") == "POST";
    const std::string_view encoding = value_of(head, "grpc-encoding");
    is_packed_ = !encoding.empty() && encoding != "identity";
    const std::string_view timeout = value_of(head, "grpc-timeout");
    if (!timeout.empty()) timeout_us_ = parse_grpc_timeout_us(timeout);
    bad_timeout_ = !timeout.empty() && !timeout_us_;
  }

  std::string_view route() const override { return method_.path; }
  bool needs_key() const override {
    return method_.kind != Kind::health && method_.kind != Kind::server_live &&
           method_.kind != Kind::server_ready;
  }
  std::size_t held_bytes() const override { return messages_.held_bytes(); }

  RpcActions begin() override {
    if (!is_post_) return refuse(unsupported("wrong_method", "the method is not POST", ":method", "POST"));
    if (method_.kind == Kind::unknown)
      return refuse(unsupported("unknown_method", "there is no such method", ":path",
                                "a method of troupe.v1.Troupe or inference.GRPCInferenceService, "
                                "grpc.health.v1.Health/Check or reflection"));
    if (method_.kind == Kind::stream_infer)
      return refuse(unsupported("unknown_method", "ModelStreamInfer is not served: there are no streams",
                                ":path", "/inference.GRPCInferenceService/ModelInfer"));
    if (is_packed_) return refuse(compressed());
    if (bad_timeout_)
      return refuse({RefusalKind::malformed, "bad_timeout", "the timeout is not one of gRPC", "grpc-timeout",
                     "up to eight digits and a unit: H, M, S, m, u or n"});
    return {};
  }

  RpcActions receive(std::string_view bytes, std::size_t unsent) override {
    messages_.take(bytes);
    if (method_.kind != Kind::reflection) return messages_.has_surplus() ? refuse(bad_count()) : faults();
    RpcActions actions;
    while (const auto message = messages_.next()) {
      if (unsent + actions.bytes.size() > unsent_max)
        return refuse({RefusalKind::over_quota, "answers_unread", "the answers are not read", "answers",
                       "a client that reads them before it asks more"});
      const auto answer = answer_reflection(*message);
      if (!answer) return refuse(bad_message());
      actions.bytes += grpc_message(*answer);
    }
    RpcActions faulty = faults();
    return faulty.trailers ? std::move(faulty) : std::move(actions);
  }

  RpcActions end(std::int64_t elapsed_us) override {
    if (method_.kind == Kind::reflection)
      return messages_.is_within_message() ? refuse(bad_count()) : RpcActions{.trailers = ok_trailers()};
    const auto message = messages_.next();
    if (messages_.fault() != GrpcMessages::Fault::none) return faults();
    if (!message || messages_.is_within_message()) return refuse(bad_count());
    messages_ = GrpcMessages(config_->message_bytes_max);  // its memory is no longer needed
    if (method_.kind == Kind::health) return ask_health(*message);
    if (method_.kind >= Kind::server_live && method_.kind < Kind::infer) return ask_server(*message);
    if (timeout_us_ && *timeout_us_ <= elapsed_us) return refuse(too_late());
    return ask_router(*message, elapsed_us);
  }

  // A deadline that has passed wins over every other reason.
  RpcActions replied(const ServerReply& reply, std::int64_t elapsed_us) override {
    if (!reply.refused) return {.bytes = grpc_message(answer_of(reply.body)), .trailers = ok_trailers()};
    if (method_.kind == Kind::model_ready && reply.code == "not_ready") return is_ready(false);
    const Refusal refusal = refusal_of(reply);
    const bool over = timeout_us_ && *timeout_us_ <= elapsed_us;
    return {.trailers = trailers_of(over ? GrpcCode::deadline_exceeded : code_of(refusal.kind), refusal)};
  }

  RpcActions is_ready(bool ready) override {
    return {.bytes = grpc_message(method_.kind == Kind::health ? write_health_reply(ready)
                                                               : write_ready_reply(ready)),
            .trailers = ok_trailers()};
  }

  RpcActions refuse(const Refusal& refusal) override { return refuse(refusal, code_of(refusal.kind)); }

 private:
  RpcActions refuse(const Refusal& refusal, GrpcCode code) {
    messages_ = GrpcMessages(0);
    RpcActions actions{.trailers = trailers_of(code, refusal), .refusal = refusal};
    if (refusal.code == "compressed") actions.trailers->emplace_back("grpc-accept-encoding", "identity");
    return actions;
  }

  RpcActions ask_router(const std::string& message, std::int64_t elapsed_us) {
    const bool bounded = timeout_us_ && *timeout_us_ - elapsed_us <= day_us;
    const std::int64_t budget_us = bounded ? *timeout_us_ - elapsed_us : 0;
    const GrpcMethod method = method_.kind == Kind::rank    ? GrpcMethod::rank
                              : method_.kind == Kind::score ? GrpcMethod::score
                                                            : GrpcMethod::generate;
    auto call = method_.kind == Kind::infer ? read_infer_call(message, *config_, budget_us)
                                            : read_grpc_call(method, message, *config_, budget_us);
    if (const auto* refusal = std::get_if<Refusal>(&call)) return refuse(*refusal);
    return {.call = std::get<ServerCall>(std::move(call))};
  }

  // Asks what the server answers itself.
  RpcActions ask_server(const std::string& message) {
    if (method_.kind == Kind::model_ready || method_.kind == Kind::model_metadata) {
      auto question = read_model_question(message, method_.kind == Kind::model_ready);
      if (const auto* refusal = std::get_if<Refusal>(&question)) return refuse(*refusal);
      return {.question = std::get<ModelQuestion>(std::move(question))};
    }
    if (const auto refusal = reject_if_not_empty(message)) return refuse(*refusal);
    if (method_.kind == Kind::server_live) return is_ready(true);
    if (method_.kind == Kind::server_ready) return {.asks_readiness = true};
    return {.question = ServerQuestion::server};
  }

  std::string answer_of(const std::string& body) const {
    switch (method_.kind) {
      case Kind::server_metadata:
        return write_server_metadata(body);
      case Kind::model_metadata:
        return write_model_metadata(body);
      case Kind::model_ready:
        return write_ready_reply(true);
      default:
        return body;
    }
  }

  RpcActions ask_health(const std::string& message) {
    const auto service = read_health_request(message);
    if (!service) return refuse(bad_message());
    if (has_health(*service)) return {.asks_readiness = true};
    return refuse({RefusalKind::not_found, "unknown_service", "there is no such service", "service",
                   "\"\", troupe.v1.Troupe or inference.GRPCInferenceService"});
  }

  // Refuses a message that can not be accepted, as soon as its length has come.
  RpcActions faults() {
    switch (messages_.fault()) {
      case GrpcMessages::Fault::none:
        return {};
      case GrpcMessages::Fault::compressed:
        return refuse(compressed());
      case GrpcMessages::Fault::too_large:
        return refuse(
            {RefusalKind::too_large, "body_too_long", "the message is too long", "message",
             "at most " + std::to_string(config_->message_bytes_max) + " bytes (http.body_bytes_max)"},
            GrpcCode::resource_exhausted);
      default:
        return refuse({RefusalKind::malformed, "bad_message",
                       "a message does not begin with 0 and its length", "message",
                       "gRPC's length-prefixed messages"});
    }
  }

  static Refusal unsupported(std::string code, std::string what, std::string where, std::string expected) {
    return {RefusalKind::unsupported, std::move(code), std::move(what), std::move(where),
            std::move(expected)};
  }
  static Refusal compressed() {
    return unsupported("compressed", "the message is compressed", "grpc-encoding", "identity");
  }
  static Refusal bad_count() {
    return unsupported("bad_message_count", "the request does not have exactly one message", "message",
                       "one whole message");
  }
  static Refusal bad_message() {
    return {RefusalKind::malformed, "bad_message", "it cannot be parsed", "message",
            "a message of the method, whose strings are UTF-8"};
  }
  static Refusal too_late() {
    return {RefusalKind::deadline_exceeded, "deadline_exceeded",
            "the deadline passed before the request came", "grpc-timeout", "a longer one"};
  }

  const std::shared_ptr<const GrpcConfig> config_;
  MethodName method_{"other", Kind::unknown};
  GrpcMessages messages_;
  std::optional<std::int64_t> timeout_us_;  // nullopt = no deadline
  bool is_post_ = false, is_packed_ = false, bad_timeout_ = false;
};

}  // namespace

GrpcService::GrpcService(GrpcConfig config) : config_(std::make_shared<const GrpcConfig>(std::move(config))) {
  silence_protobuf();
}

std::unique_ptr<RpcCall> GrpcService::find_call(const Http2Fields& head) const {
  const std::string_view type = value_of(head, "content-type");
  if (!type.starts_with(content_type)) return nullptr;
  const std::string_view form = type.substr(content_type.size());
  if (!form.empty() && form != "+proto" && !form.starts_with(";") && !form.starts_with("+proto;"))
    return nullptr;
  return std::make_unique<GrpcCall>(config_, head);
}

const Http2Fields& GrpcService::answer_fields() const {
  static const Http2Fields fields{{"content-type", std::string(content_type)}};
  return fields;
}

}  // namespace troupe::server
