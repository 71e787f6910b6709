// All that knows of gRPC, with the code that is made of troupe.proto, which takes long to compile.
#include "router/door/grpc_door.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "troupe.pb.cc"       // NOLINT
#include "troupe.grpc.pb.cc"  // NOLINT

namespace troupe::router {
namespace {

// ---- messages ----

template <class List, class Field>
void put_all(const List& from, Field* to) {
  to->Assign(from.begin(), from.end());
}
std::vector<std::string> texts(const google::protobuf::RepeatedPtrField<std::string>& field) { return {field.begin(), field.end()}; }
std::vector<Token> tokens(const google::protobuf::RepeatedField<std::int32_t>& field) { return {field.begin(), field.end()}; }

Message message_of(const v1::RankRequest& asked) {
  RankRequest request{.user = asked.user(), .candidates = texts(asked.candidates()), .top_k = asked.top_k(), .policy = asked.policy()};
  request.budget_us = asked.budget_us();
  request.request_timestamp = asked.request_timestamp();
  if (asked.has_approximate()) request.approximate = asked.approximate();
  request.scenario = asked.scenario();
  request.task = asked.task();
  request.features = asked.features();
  request.unknown = asked.unknown();
  request.history = texts(asked.history());
  return request;
}

Message message_of(const v1::ScoreRequest& asked) {
  ScoreRequest request{.query = tokens(asked.query()), .label_tokens = tokens(asked.label_tokens()), .apply_softmax = asked.apply_softmax()};
  for (const v1::TokenList& item : asked.items()) request.items.push_back({tokens(item.tokens())});
  request.budget_us = asked.budget_us();
  return request;
}

Message message_of(const v1::GenerateRequest& asked) {
  GenerateRequest request{.user = asked.user(), .top_k = asked.top_k(), .width = asked.width(), .exclude_seen = asked.exclude_seen()};
  request.allow = texts(asked.allow());
  request.deny = texts(asked.deny());
  request.among_allowed = asked.among_allowed();
  request.budget_us = asked.budget_us();
  request.logprobs = asked.logprobs();
  request.features = asked.features();
  return request;
}

void put(const Timings& from, v1::Timings* to) {
  to->set_features(from.features);
  to->set_lookup(from.lookup);
  to->set_blocks(from.blocks);
  to->set_queue(from.queue);
  to->set_compute(from.compute);
  to->set_total(from.total);
  to->set_pull(from.pull);
  to->set_predicted(from.predicted);
  to->set_turn(from.turn);
}

// What all answers have that come of a prompt.
template <class From, class To>
void put_tokens(const From& from, To* to) {
  to->set_tokens_total(from.tokens_total);
  to->set_tokens_computed(from.tokens_computed);
  to->set_tokens_reused(from.tokens_reused);
  to->set_model_version(from.model_version);
  put(from.timings, to->mutable_timings());
}
template <class From, class To>
void put_run(const From& from, To* to) {
  put_tokens(from, to);
  to->set_user(from.user);
  to->set_blocks_reused(from.blocks_reused);
  to->set_blocks_written(from.blocks_written);
  to->set_history_cut(from.history_cut);
  to->set_catalog_version(from.catalog_version);
  to->set_profile_version(from.profile_version);
  to->set_node(from.node);
  to->set_features_stale(from.features_stale);
  to->set_features_missing(from.features_missing);
}

void put(const RankReply& from, v1::RankReply* to) {
  put_run(from, to);
  to->set_policy(from.policy);
  to->set_plan(from.plan);
  to->set_approximate(from.approximate);
  for (const RankedItem& item : from.items) {
    v1::RankedItem* const made = to->add_items();
    made->set_id(item.id);
    made->set_title(item.title);
    made->set_score(item.score);
    made->set_probability(item.probability);
    put_all(item.task_scores, made->mutable_task_scores());
  }
  put_all(from.tasks, to->mutable_tasks());
  put_all(from.skipped, to->mutable_skipped());
}

void put(const ScoreReply& from, v1::ScoreReply* to) {
  put_tokens(from, to);
  for (const ScoreRow& row : from.items) put_all(row.scores, to->add_items()->mutable_scores());
}

void put(const GenerateReply& from, v1::GenerateReply* to) {
  put_run(from, to);
  to->set_reason(from.reason);
  to->set_width(from.width);
  for (const GeneratedItem& item : from.items) {
    v1::GeneratedItem* const made = to->add_items();
    made->set_id(item.id);
    made->set_title(item.title);
    made->set_log_probability(item.log_probability);
    put_all(item.tokens, made->mutable_tokens());
    put_all(item.by_token, made->mutable_token_logprobs());
  }
}

// ---- calls ----

constexpr std::size_t metadata_text_max = 512;

std::string metadata(const grpc::CallbackServerContext& context, const char* name) {
  const auto& all = context.client_metadata();
  const auto at = all.find(name);
  return at == all.end() ? "" : std::string(at->second.data(), at->second.size());
}

grpc::StatusCode code_of(unsigned status) {
  switch (status) {
    case 401: return grpc::StatusCode::UNAUTHENTICATED;
    case 403: return grpc::StatusCode::PERMISSION_DENIED;
    case 404: return grpc::StatusCode::NOT_FOUND;
    case 412:
    case 422: return grpc::StatusCode::FAILED_PRECONDITION;
    case 429: return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case 500: return grpc::StatusCode::INTERNAL;
    case 503: return grpc::StatusCode::UNAVAILABLE;
    case 504: return grpc::StatusCode::DEADLINE_EXCEEDED;
    default: return grpc::StatusCode::INVALID_ARGUMENT;
  }
}

// What the refusal says, and where in the trailing metadata, which are ASCII.
grpc::Status status_of(const DoorReply& reply, grpc::CallbackServerContext& context) {
  if (reply.status == 200) return grpc::Status::OK;
  const auto body = nlohmann::json::parse(reply.body, nullptr, false);
  const auto text = [&](const char* name) {
    const bool has = body.is_object() && body.contains("error") && body["error"].is_object() && body["error"].contains(name) && body["error"][name].is_string();
    return has ? body["error"][name].get<std::string>() : std::string();
  };
  std::string where = text("where");
  const bool plain = std::ranges::all_of(where, [](char c) { return c >= 0x20 && c < 0x7f; });
  context.AddTrailingMetadata("troupe-code", reply.code);
  if (plain && !where.empty()) context.AddTrailingMetadata("troupe-where", where);
  if (reply.retry_after_s > 0) context.AddTrailingMetadata("retry-after-s", std::to_string(reply.retry_after_s));
  const bool over = std::chrono::system_clock::now() >= context.deadline();  // whatever the reason was, then that is one
  return {over ? grpc::StatusCode::DEADLINE_EXCEEDED : code_of(reply.status), where + ": " + text("message") + "; expected " + text("expected")};
}

// Microseconds until the client gives up; 0: it says no time.
std::int64_t time_left_us(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  const auto now = std::chrono::system_clock::now();
  if (deadline > now + std::chrono::hours(24)) return 0;
  return std::max<std::int64_t>(1, std::chrono::duration_cast<std::chrono::microseconds>(deadline - now).count());
}

class Service final : public v1::Troupe::CallbackService {
 public:
  Service(GrpcDoor::Ask ask, std::uint32_t calls_max) : ask_(std::move(ask)), calls_max_(calls_max) {}

  grpc::ServerUnaryReactor* Rank(grpc::CallbackServerContext* context, const v1::RankRequest* asked, v1::RankReply* reply) override {
    return serve<RankReply>(context, "/troupe.v1.Troupe/Rank", "rank", *asked, reply);
  }
  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* context, const v1::ScoreRequest* asked, v1::ScoreReply* reply) override {
    return serve<ScoreReply>(context, "/troupe.v1.Troupe/Score", "score", *asked, reply);
  }
  grpc::ServerUnaryReactor* Generate(grpc::CallbackServerContext* context, const v1::GenerateRequest* asked, v1::GenerateReply* reply) override {
    return serve<GenerateReply>(context, "/troupe.v1.Troupe/Generate", "generate", *asked, reply);
  }

 private:
  template <class Kind, class Asked, class Reply>
  grpc::ServerUnaryReactor* serve(grpc::CallbackServerContext* context, const char* route, const char* kind, const Asked& asked, Reply* reply) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    if (++calls_ > calls_max_) {
      --calls_;
      reactor->Finish({grpc::StatusCode::UNAVAILABLE, "as many calls as may be have no answer yet; expected fewer (http.connections_max)"});
      return reactor;
    }
    DoorCall call{.route = route, .kind = kind, .model = asked.model(), .asked = {with_budget(message_of(asked), time_left_us(*context)), {}}};
    call.asked.body = [reply, model = asked.model()](const Message& answer, const std::string& known,
                                                     std::int64_t) -> std::variant<std::string, Refusal> {
      const auto* of_kind = std::get_if<Kind>(&answer);
      if (!of_kind) return Refusal{500, "wrong_answer", "the router answered with another kind", "router", "an answer to what was asked"};
      if (auto other = find_other_model(model, known, of_kind->model_version)) return *other;
      put(*of_kind, reply);
      return std::string();
    };
    call.authorization = metadata(*context, "authorization");
    call.tenant = metadata(*context, "x-troupe-tenant");
    call.traceparent = metadata(*context, "traceparent").substr(0, metadata_text_max);
    call.request_id = metadata(*context, "x-request-id").substr(0, 128);
    call.bytes_in = asked.ByteSizeLong();
    ask_(std::move(call), [this, context, reactor](const DoorReply& answer) {
      --calls_;
      reactor->Finish(status_of(answer, *context));
    });
    return reactor;
  }

  static Message with_budget(Message message, std::int64_t left_us) {
    std::visit(
        [&](auto& m) {
          if constexpr (requires { m.budget_us; })
            if (left_us > 0 && m.budget_us >= 0 && (m.budget_us == 0 || m.budget_us > left_us)) m.budget_us = left_us;
        },
        message);
    return message;
  }

  GrpcDoor::Ask ask_;
  const std::uint32_t calls_max_;
  std::atomic<std::uint32_t> calls_ = 0;
};

std::shared_ptr<grpc::ServerCredentials> credentials(const DoorCertificate& certificate) {
  if (certificate.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({certificate.key, certificate.chain});
  return grpc::SslServerCredentials(options);
}

}  // namespace

struct GrpcDoor::Server {
  Server(const GrpcConfig& config, Ask ask) : service(std::move(ask), config.calls_max) {}
  Service service;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

bool has_grpc() { return true; }

GrpcDoor::GrpcDoor(const GrpcConfig& config, Ask ask) : server_(std::make_unique<Server>(config, std::move(ask))) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(config.listen, credentials(config.certificate), &server_->port);
  builder.RegisterService(&server_->service);
  builder.SetMaxReceiveMessageSize(static_cast<int>(config.message_bytes_max));
  builder.SetResourceQuota(grpc::ResourceQuota("troupe").Resize(config.memory_bytes_max));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(config.metadata_bytes_max));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(config.calls_max));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, static_cast<int>(std::max<std::int64_t>(1'000, config.idle_us_max / 1'000)));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  server_->server = builder.BuildAndStart();
  if (!server_->server || server_->port == 0)
    throw DoorError("grpc: cannot listen on " + config.listen + "; expected HOST:PORT with a free port, and a certificate with its key or none");
}

GrpcDoor::~GrpcDoor() {
  if (!server_->server) return;
  server_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  server_->server->Wait();
}

std::uint16_t GrpcDoor::port() const { return static_cast<std::uint16_t>(server_->port); }

}  // namespace troupe::router
