// Serves rankings, scores and generations over gRPC: parses calls, hands them to the HTTP server's
// request path, and writes the replies. Everything that depends on gRPC is in this file, because it
// compiles slowly.
#include "server/grpc/grpc_server.h"

#include <grpc/grpc_security.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "troupe.grpc.pb.cc"  // NOLINT
#include "troupe.pb.cc"       // NOLINT

namespace troupe::server {
namespace {

// ---- messages ----

template <class List, class Field>
void put_all(const List& from, Field* to) {
  to->Assign(from.begin(), from.end());
}
std::vector<std::string> texts(const google::protobuf::RepeatedPtrField<std::string>& field) {
  return {field.begin(), field.end()};
}
std::vector<Token> tokens(const google::protobuf::RepeatedField<std::int32_t>& field) {
  return {field.begin(), field.end()};
}

// An option with an unknown word is refused, as in an HTTP body.
using ParsedMessage = std::variant<Message, Refusal>;
ParsedMessage message_of(const v1::RankRequest& asked) {
  RankRequest request{.user = asked.user(),
                      .candidates = texts(asked.candidates()),
                      .top_k = asked.top_k(),
                      .policy = asked.policy()};
  request.budget_us = asked.budget_us();
  request.request_timestamp = asked.request_timestamp();
  if (asked.has_approximate()) request.approximate = asked.approximate();
  request.scenario = asked.scenario();
  request.task = asked.task();
  if (auto fault = read_word(asked.features(), request.features)) return *std::move(fault);
  if (auto fault = read_word(asked.unknown(), request.unknown)) return *std::move(fault);
  if (auto fault = read_word(asked.arrangement(), request.arrangement)) return *std::move(fault);
  request.history = texts(asked.history());
  return request;
}

ParsedMessage message_of(const v1::ScoreRequest& asked) {
  ScoreRequest request{.query = tokens(asked.query()),
                       .label_tokens = tokens(asked.label_tokens()),
                       .apply_softmax = asked.apply_softmax()};
  for (const v1::TokenList& item : asked.items()) request.items.push_back({tokens(item.tokens())});
  request.budget_us = asked.budget_us();
  return request;
}

ParsedMessage message_of(const v1::GenerateRequest& asked) {
  GenerateRequest request{.user = asked.user(),
                          .top_k = asked.top_k(),
                          .width = asked.width(),
                          .exclude_seen = asked.exclude_seen()};
  request.allow = texts(asked.allow());
  request.deny = texts(asked.deny());
  request.among_allowed = asked.among_allowed();
  request.budget_us = asked.budget_us();
  request.logprobs = asked.logprobs();
  if (auto fault = read_word(asked.features(), request.features)) return *std::move(fault);
  return request;
}

template <class Field>
std::size_t count(const Field& field) {
  return static_cast<std::size_t>(field.size());
}
// A list of a request, named as in its limit.
struct ListSize {
  std::string_view list;
  std::size_t elements = 0;
  std::size_t kept_of_one =
      sizeof(std::string);  // bytes that each element takes when copied, beyond those in the message
};
using ListSizes = std::vector<ListSize>;
ListSizes sizes_of(const v1::RankRequest& asked) {
  return {{"candidates", count(asked.candidates())}, {"history", count(asked.history())}};
}
ListSizes sizes_of(const v1::ScoreRequest& asked) {
  std::size_t tokens = 0;
  for (const v1::TokenList& item : asked.items()) tokens += count(item.tokens());
  return {{"query", count(asked.query()), sizeof(Token)},
          {"label_tokens", count(asked.label_tokens()), sizeof(Token)},
          {"items", count(asked.items()), sizeof(TokenList)},
          {"tokens", tokens, sizeof(Token)}};
}
ListSizes sizes_of(const v1::GenerateRequest& asked) {
  return {{"allow", count(asked.allow())}, {"deny", count(asked.deny())}};
}

// Applies the same list limits as for an HTTP body.
std::optional<Refusal> find_long_list(const ListSizes& sizes, const std::vector<ListLimit>& limits) {
  for (const ListLimit& limit : limits)
    for (const ListSize& size : sizes)
      if (size.list == limit.list && size.elements > limit.max) {
        const std::string most = std::to_string(limit.max), name(size.list);
        return Refusal{RefusalKind::too_large,
                       limit.code.empty() ? "too_many_" + std::string(limit.things) : std::string(limit.code),
                       name + " has more than " + most + " elements", name,
                       "at most " + most + " (" + std::string(limit.setting) + ")"};
      }
  return std::nullopt;
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

// Fills the token counts that all prompt-based answers share.
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
  to->set_arrangement(std::string(word_of(from.arrangement)));
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
  put_all(from.in_place, to->mutable_in_place());
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

constexpr std::size_t metadata_text_max = 512, status_text_max = 1024;

std::string metadata(const grpc::CallbackServerContext& context, const char* name) {
  const auto& all = context.client_metadata();
  const auto at = all.find(name);
  return at == all.end() ? "" : std::string(at->second.data(), at->second.size());
}

std::optional<Refusal> find_repeated(const grpc::CallbackServerContext& context) {
  const auto& all = context.client_metadata();
  if (all.count("x-troupe-tenant") > 1)
    return Refusal{RefusalKind::malformed, "repeated_tenant", "the request names several tenants",
                   "x-troupe-tenant", "one at most"};
  if (all.count("authorization") > 1)
    return Refusal{RefusalKind::malformed, "repeated_key", "the request has several keys", "authorization",
                   "one at most"};
  return std::nullopt;
}

// Cuts the text to the length that clients accept, at the end of a character.
std::string cut(std::string text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xc0) == 0x80) --bytes_max;
  text.resize(bytes_max);
  return text;
}

grpc::StatusCode code_of(RefusalKind kind) {
  switch (kind) {
    case RefusalKind::unauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case RefusalKind::forbidden:
      return grpc::StatusCode::PERMISSION_DENIED;
    case RefusalKind::not_found:
      return grpc::StatusCode::NOT_FOUND;
    case RefusalKind::precondition_failed:
    case RefusalKind::unprocessable:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case RefusalKind::over_quota:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case RefusalKind::internal:
      return grpc::StatusCode::INTERNAL;
    case RefusalKind::unavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case RefusalKind::deadline_exceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    default:
      return grpc::StatusCode::INVALID_ARGUMENT;
  }
}

// Turns a reply into a status; error code and place go into the trailing metadata, which are ASCII.
grpc::Status status_of(const ServerReply& reply, grpc::CallbackServerContext& context) {
  if (!reply.refused) return grpc::Status::OK;
  const auto body = nlohmann::json::parse(reply.body, nullptr, false);
  const auto text = [&](const char* name) {
    const bool has = body.is_object() && body.contains("error") && body["error"].is_object() &&
                     body["error"].contains(name) && body["error"][name].is_string();
    return has ? body["error"][name].get<std::string>() : std::string();
  };
  std::string where = text("where");
  const bool plain = std::ranges::all_of(where, [](char c) { return c >= 0x20 && c < 0x7f; });
  context.AddTrailingMetadata("troupe-code", reply.code);
  if (plain && !where.empty()) context.AddTrailingMetadata("troupe-where", cut(where, metadata_text_max));
  if (reply.retry_after_s > 0)
    context.AddTrailingMetadata("retry-after-s", std::to_string(reply.retry_after_s));
  // an expired deadline wins over every other reason
  const bool over = std::chrono::system_clock::now() >= context.deadline();
  const std::string words = where + ": " + text("message") + "; expected " + text("expected");
  return {over ? grpc::StatusCode::DEADLINE_EXCEEDED : code_of(*reply.refused), cut(words, status_text_max)};
}

// Returns the microseconds until the client's deadline; 0 = it has none.
std::int64_t time_left_us(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  const auto now = std::chrono::system_clock::now();
  if (deadline > now + std::chrono::hours(24)) return 0;
  return std::max<std::int64_t>(
      1, std::chrono::duration_cast<std::chrono::microseconds>(deadline - now).count());
}

// Messages arrive as bytes. Parsed messages take up to 50 times as much memory (an empty string has
// two bytes), so few are parsed at once and none is kept.
using RawService = v1::Troupe::WithRawCallbackMethod_Rank<
    v1::Troupe::WithRawCallbackMethod_Score<v1::Troupe::WithRawCallbackMethod_Generate<v1::Troupe::Service>>>;

class Service final : public RawService {
 public:
  Service(const GrpcConfig& config, GrpcServer::Ask ask) : config_(config), ask_(std::move(ask)) {}

  grpc::ServerUnaryReactor* Rank(grpc::CallbackServerContext* context, const grpc::ByteBuffer* asked,
                                 grpc::ByteBuffer* reply) override {
    return serve<RankRequest, v1::RankRequest, RankReply, v1::RankReply>(context, "/troupe.v1.Troupe/Rank",
                                                                         "rank", *asked, reply);
  }
  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* context, const grpc::ByteBuffer* asked,
                                  grpc::ByteBuffer* reply) override {
    return serve<ScoreRequest, v1::ScoreRequest, ScoreReply, v1::ScoreReply>(
        context, "/troupe.v1.Troupe/Score", "score", *asked, reply);
  }
  grpc::ServerUnaryReactor* Generate(grpc::CallbackServerContext* context, const grpc::ByteBuffer* asked,
                                     grpc::ByteBuffer* reply) override {
    return serve<GenerateRequest, v1::GenerateRequest, GenerateReply, v1::GenerateReply>(
        context, "/troupe.v1.Troupe/Generate", "generate", *asked, reply);
  }

 private:
  static constexpr std::size_t small_bytes_max = 32 << 10;  // smaller messages are parsed in parallel
  static constexpr std::uint64_t kept_of_byte =
      2;  // per byte of a message: gRPC keeps it until the answer, and texts are copied

  template <class RouterMessage, class ProtoMessage, class Kind, class Reply>
  grpc::ServerUnaryReactor* serve(grpc::CallbackServerContext* context, const char* route, const char* kind,
                                  const grpc::ByteBuffer& bytes, grpc::ByteBuffer* reply) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    ServerCall call;
    call.route = route, call.kind = kind;
    call.fault = find_repeated(*context);
    call.bytes_in = bytes.Length();
    std::uint64_t kept = kept_of_byte * bytes.Length();
    if (!begin(kept)) {
      reactor->Finish({grpc::StatusCode::UNAVAILABLE,
                       "the number or the memory of unanswered calls is at its limit; expected fewer calls "
                       "(http.connections_max, http.memory_max)"});
      return reactor;
    }
    if (!read<RouterMessage, ProtoMessage>(bytes, call, kept)) {
      end(kept);
      reactor->Finish({grpc::StatusCode::INVALID_ARGUMENT,
                       "message: it cannot be parsed; expected a message of troupe.proto"});
      return reactor;
    }
    with_budget(call.asked.message, time_left_us(*context));
    call.asked.body = answer_into<Kind, Reply>(reply, call.model);
    call.authorization = metadata(*context, "authorization");
    call.tenant = metadata(*context, "x-troupe-tenant");
    call.traceparent = metadata(*context, "traceparent").substr(0, metadata_text_max);
    call.request_id = metadata(*context, "x-request-id").substr(0, 128);
    ask_(std::move(call), [this, context, reactor, kept](const ServerReply& answer) {
      end(kept);
      reactor->Finish(status_of(answer, *context));
    });
    return reactor;
  }

  template <class Kind, class Reply>
  static decltype(ShapedRequest::body) answer_into(grpc::ByteBuffer* reply, const std::string& model) {
    return [reply, model](const Message& answer, const AnsweringModel& known,
                          std::int64_t) -> std::variant<std::string, Refusal> {
      const auto* of_kind = std::get_if<Kind>(&answer);
      if (!of_kind)
        return Refusal{RefusalKind::internal, "wrong_answer",
                       "the router answered with the wrong kind of message", "router",
                       "an answer to the request"};
      if (auto other = reject_if_other_model(model, known, of_kind->model_version)) return *other;
      Reply made;
      put(*of_kind, &made);
      bool owned = false;
      if (!grpc::SerializationTraits<Reply>::Serialize(made, reply, &owned).ok())
        return Refusal{RefusalKind::internal, "wrong_answer", "the answer cannot be serialized", "router",
                       "an answer to the request"};
      return std::string();
    };
  }

  // Parses a message; returns false if it is invalid. Copies nothing if a list is too long.
  template <class RouterMessage, class ProtoMessage>
  bool read(grpc::ByteBuffer bytes, ServerCall& call, std::uint64_t& kept) {
    std::unique_lock lock(parsing_, std::defer_lock);
    if (bytes.Length() > small_bytes_max) lock.lock();
    ProtoMessage asked;
    if (!grpc::SerializationTraits<ProtoMessage>::Deserialize(&bytes, &asked).ok()) return false;
    call.model = asked.model();
    const ListSizes sizes = sizes_of(asked);
    if (!call.fault) call.fault = find_long_list(sizes, list_limits<RouterMessage>(limits_of(call)));
    if (call.fault) return true;
    for (const ListSize& size : sizes) keep(size.kept_of_one * size.elements, kept);
    ParsedMessage message = message_of(asked);
    if (auto* fault = std::get_if<Refusal>(&message))
      call.fault = std::move(*fault);
    else
      call.asked.message = std::get<Message>(std::move(message));
    return true;
  }

  const ServerLimits& limits_of(const ServerCall& call) const {
    const auto chosen = choose_model(call.model, call.kind, config_.models);
    const auto* const model = std::get_if<const ServerModel*>(&chosen);
    return model && *model ? (*model)->limits : config_.limits;
  }

  // Admits a call; a single call is always admitted. The memory of list elements is known only
  // later, and bounded by the limits of lists.
  bool begin(std::uint64_t kept) {
    const std::lock_guard lock(mutex_);
    if (calls_ >= config_.calls_max || (calls_ > 0 && kept_ + kept > config_.memory_bytes_max)) return false;
    ++calls_, kept_ += kept;
    return true;
  }
  void keep(std::uint64_t more, std::uint64_t& kept) {
    const std::lock_guard lock(mutex_);
    kept_ += more, kept += more;
  }
  void end(std::uint64_t kept) {
    const std::lock_guard lock(mutex_);
    --calls_, kept_ -= kept;
  }

  static void with_budget(Message& message, std::int64_t left_us) {
    std::visit(
        [&](auto& m) {
          if constexpr (requires { m.budget_us; })
            if (left_us > 0 && m.budget_us >= 0 && (m.budget_us == 0 || m.budget_us > left_us))
              m.budget_us = left_us;
        },
        message);
  }

  const GrpcConfig config_;
  GrpcServer::Ask ask_;
  std::mutex parsing_, mutex_;
  std::uint32_t calls_ = 0;  // unanswered calls, and the bytes that they keep
  std::uint64_t kept_ = 0;
};

// Certificate for new connections. gRPC's threads ask for it at each handshake.
class ReloadableCertificate {
 public:
  explicit ReloadableCertificate(ServerCertificate first) : shown_(std::move(first)) {}
  void renew(const ServerCertificate& next) {
    const std::lock_guard lock(mutex_);
    if (next.chain == shown_.chain && next.key == shown_.key) return;
    shown_ = next;
    is_new_ = true;
  }
  // Callback for gRPC's core; `self` is a ReloadableCertificate.
  static grpc_ssl_certificate_config_reload_status fetch(void* self,
                                                         grpc_ssl_server_certificate_config** config) {
    auto& shown = *static_cast<ReloadableCertificate*>(self);
    const std::lock_guard lock(shown.mutex_);
    if (!std::exchange(shown.is_new_, false)) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{shown.shown_.key.c_str(), shown.shown_.chain.c_str()};
    // The first argument is an authority for clients' certificates; clients need none, so any
    // certificate will do.
    *config = grpc_ssl_server_certificate_config_create(pair.cert_chain, &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

 private:
  std::mutex mutex_;
  ServerCertificate shown_;
  bool is_new_ = true;
};

// Credentials that reload the certificate; those of gRPC's C++ interface keep the first one.
class ReloadingCredentials final : public grpc::ServerCredentials {
 public:
  explicit ReloadingCredentials(ReloadableCertificate& shown)
      : credentials_(grpc_ssl_server_credentials_create_with_options(
                         grpc_ssl_server_credentials_create_options_using_config_fetcher(
                             GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE, ReloadableCertificate::fetch, &shown)),
                     grpc_server_credentials_release) {}
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
  }  // keys are checked by the server itself

 private:
  int AddPortToServer(const std::string& listen, grpc_server* server) override {
    return credentials_ ? grpc_server_add_http2_port(server, listen.c_str(), credentials_.get()) : 0;
  }
  const std::unique_ptr<grpc_server_credentials, void (*)(grpc_server_credentials*)> credentials_;
};

}  // namespace

struct GrpcServer::Server {
  Server(const GrpcConfig& config, Ask ask)
      : service(config, std::move(ask)), certificate(config.certificate) {}
  std::shared_ptr<grpc::ServerCredentials> credentials(bool is_tls) {
    if (!is_tls) return grpc::InsecureServerCredentials();
    return std::make_shared<ReloadingCredentials>(certificate);
  }
  Service service;
  ReloadableCertificate certificate;  // outlives the server
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

namespace {

constexpr std::int64_t connection_age = 60;  // maximum age as a multiple of the idle time

int milliseconds(std::int64_t us) {
  return static_cast<int>(std::clamp<std::int64_t>(us / 1'000, 1'000, INT_MAX));
}

// Returns gRPC's memory quota, like the HTTP server's: at least one request of maximum size.
std::size_t quota_bytes(const GrpcConfig& config) {
  const std::size_t one_request =
      std::size_t{2} * (std::size_t{config.metadata_bytes_max} + config.message_bytes_max) + (64 << 10);
  return std::max<std::size_t>(config.memory_bytes_max, one_request);
}

}  // namespace

GrpcServer::GrpcServer(const GrpcConfig& config, Ask ask)
    : server_(std::make_unique<Server>(config, std::move(ask))) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(config.listen, server_->credentials(!config.certificate.empty()), &server_->port);
  builder.RegisterService(&server_->service);
  builder.SetMaxReceiveMessageSize(static_cast<int>(config.message_bytes_max));
  builder.SetResourceQuota(grpc::ResourceQuota("troupe").Resize(quota_bytes(config)));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(config.metadata_bytes_max));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(config.calls_max));
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION,
                             0);  // decompression has no limit; clients are told that it is unsupported
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, milliseconds(config.idle_us_max));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, milliseconds(config.idle_us_max));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                             milliseconds(connection_age * config.idle_us_max));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, milliseconds(config.answer_us_max));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  server_->server = builder.BuildAndStart();
  if (!server_->server || server_->port == 0)
    throw ServerError("grpc: cannot listen on " + config.listen +
                      "; expected HOST:PORT with a free port, and either no certificate or one with its key");
}

GrpcServer::~GrpcServer() {
  if (!server_->server) return;
  server_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  server_->server->Wait();
}

void GrpcServer::renew(const ServerCertificate& certificate) { server_->certificate.renew(certificate); }

std::uint16_t GrpcServer::port() const { return static_cast<std::uint16_t>(server_->port); }

}  // namespace troupe::server
