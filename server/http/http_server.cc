// Contains the HTTP server's core: it forwards requests to the router, and matches replies and
// timeouts to them. Also answers questions about health, models and the cluster.
#include "server/http/http_server.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <tuple>
#include <utility>

#include "kernels/base/hash.h"
#include "runtime/actor/message_id.h"
#include "runtime/profiling/process_limits.h"
#include "runtime/wire/json.h"
#include "runtime/wire/json_text.h"
#include "server/formats/entity_tags.h"
#include "server/formats/explained_texts.h"
#include "server/formats/http_refusal.h"
#include "server/formats/inference_protocol.h"
#include "server/formats/word_tokens.h"
#include "server/http/completions.h"
#include "server/http/http_server_state.h"
#include "server/http/served_versions.h"
#include "server/http/unanswered.h"
#include "server/observability/openapi.h"
#include "server/observability/page.h"

namespace troupe::server {

using std::chrono::microseconds;

namespace {

using Reasons = std::vector<std::string>;

constexpr std::int64_t status_us_max = 1'000'000;  // wait for the actors' status
constexpr ConnectionLimits health_reserve_limits{
    .connections_max = 64, .connections_per_address_max = 16, .bytes_max = 4 << 20};

ConnectionLimits connection_limits(const HttpServerConfig& config) {
  const std::size_t one_request =
      std::size_t{2} * (config.header_bytes_max + config.body_bytes_max) + (64 << 10);
  return {config.connections_max, config.connections_per_address_max,
          std::max<std::size_t>(config.memory_bytes_max, one_request)};
}

constexpr std::size_t bodies_waiting_max = 256;  // for a thread that reads them
unsigned reader_threads() { return std::clamp(usable_cores() / 4, 1U, 4U); }

// Formats "router@1 is not ready: the catalog has no items"; the reason is optional.
std::string why_not_ready(const StatusReply& reply) {
  const std::string model = field_of(reply, "model");
  const std::string who = name_of(Address{reply.node, reply.role}) +
                          (model.empty() ? "" : " of model " + model) + " is not ready";
  const std::string why = field_of(reply, "not_ready");
  return why.empty() ? who : who + ": " + why;
}

// Adds the reasons for which actors serve worse than they should, each once: routers of several models may
// say the same.
std::string ready_json(const std::vector<StatusReply>& replies, Reasons degraded) {
  for (const StatusReply& reply : replies)
    for (const StatusField& field : reply.fields)
      if (field.name == "degraded" && std::ranges::count(degraded, field.value) == 0)
        degraded.push_back(field.value);
  if (degraded.empty()) return R"({"ready":true})";
  std::string text = R"({"ready":true,"degraded":[)";
  for (const std::string& reason : degraded) {
    if (!text.ends_with('[')) text += ',';
    append_json_string(text, reason);
  }
  return text + "]}";
}

// Identifies the actor of a status: with several models, all routers are on one node.
auto actor_of(const StatusReply& reply) {
  return std::tuple(reply.node, reply.role, field_of(reply, "model"));
}

std::vector<Address> routers_of(const HttpServerConfig& config) {
  if (config.models.empty()) return {config.router};
  std::vector<Address> routers;
  for (const ServerModel& model : config.models) routers.push_back(model.router);
  return routers;
}

std::int64_t since_1970_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

template <class Reply>
ObservedRun run_of(const char* kind, const Reply& reply) {
  ObservedRun run{.kind = kind,
                  .timings = reply.timings,
                  .tokens_total = reply.tokens_total,
                  .tokens_reused = reply.tokens_reused};
  if constexpr (requires { reply.plan; }) run.plan = reply.plan;
  if constexpr (requires { reply.node; }) run.node = reply.node;
  return run;
}

ObservedRun run_of(const Message& reply) {
  if (const auto* m = std::get_if<RankReply>(&reply)) return run_of("rank", *m);
  if (const auto* m = std::get_if<ScoreReply>(&reply)) return run_of("score", *m);
  if (const auto* m = std::get_if<GenerateReply>(&reply)) return run_of("generate", *m);
  if (const auto* m = std::get_if<EmbedReply>(&reply)) return run_of("embed", *m);
  return {};
}

// Sets the trace of a message to a worker; other messages have no such field.
void set_trace(Message& message, const TraceContext& trace) {
  std::visit(
      [&](auto& m) {
        if constexpr (requires { m.trace; }) m.trace = trace;
      },
      message);
}

// A router of an earlier version does not know that a request can name an arrangement, and serves another.
std::optional<Refusal> reject_if_other_arrangement(Arrangement named, const Message& answer) {
  const auto* rank = std::get_if<RankReply>(&answer);
  if (named == Arrangement::unnamed || !rank || rank->arrangement == named) return std::nullopt;
  const std::string_view served = word_of(rank->arrangement);
  return Refusal{RefusalKind::unavailable, "wrong_arrangement",
                 "the request names arrangement \"" + std::string(word_of(named)) +
                     "\", and the router served " +
                     (served.empty() ? "one without a name" : "\"" + std::string(served) + "\""),
                 "arrangement", "a router that knows arrangements; while a cluster is upgraded, some do not"};
}

}  // namespace

HttpServer::Answer HttpServer::Answer::of(const Refusal& refusal) {
  return {.status = http_status(refusal.kind),
          .body = to_json(refusal),
          .allow = refusal.kind == RefusalKind::wrong_method ? refusal.expected : "",
          .retry_after_s = refusal.retry_after_s,
          .code = refusal.code,
          .refused = refusal.kind};
}

HttpServer::Answer HttpServer::Answer::of(const TenantPauses::StoredRefusal& refusal) {
  return {.status = http_status(refusal.kind),
          .body = refusal.json,
          .retry_after_s = refusal.retry_after_s,
          .code = "tenant_overloaded",
          .refused = refusal.kind};
}

HttpServer::Answer HttpServer::Answer::of(const Message& message, const ModelText& text) {
  if (const auto* m = std::get_if<RankReply>(&message))
    return {.body = rank_body(*m, text), .run = run_of(message)};
  if (const auto* m = std::get_if<ScoreReply>(&message)) return {.body = to_json(*m), .run = run_of(message)};
  if (const auto* m = std::get_if<GenerateReply>(&message))
    return {.body = to_json(*m), .run = run_of(message)};
  const auto versioned = [](std::string body, std::uint64_t version) {
    return Answer{.body = std::move(body), .etag = etag_of(version)};
  };
  if (const auto* m = std::get_if<Stored>(&message)) return versioned(to_json(*m), m->version);
  if (const auto* m = std::get_if<Appended>(&message)) return versioned(to_json(*m), m->version);
  if (const auto* m = std::get_if<UserReply>(&message))
    return versioned(with_words(to_json(*m), m->tokens, text), m->version);
  if (const auto* m = std::get_if<ItemReply>(&message))
    return versioned(with_words(to_json(*m), m->tokens, text), m->version);
  if (const auto* m = std::get_if<Refused>(&message)) return of(m->refusal);
  return of(Refusal{RefusalKind::internal, "wrong_answer", "an actor answered with the wrong kind of message",
                    "router", "a reply"});
}

HttpServer::Answer HttpServer::Answer::of_models(std::span<const StatusReply> routers,
                                                 const std::vector<std::string>& aliases) {
  if (routers.empty())
    return of(Refusal{RefusalKind::unavailable, "not_ready", "the router does not answer", "router",
                      "a router that answers"});
  std::string text = R"({"object":"list","data":[)";
  const auto add = [&](const StatusReply& router, const std::string& id, const std::string& version,
                       const std::string& names) {
    text += text.ends_with('[') ? R"({"id":)" : R"(,{"id":)";
    append_json_string(text, id);
    text += R"(,"object":"model","created":0,"owned_by":"troupe","serves":)";
    append_json_string(text, field_of(router, "model_serves"));
    if (!version.empty()) append_json_string(text += R"(,"version":)", version);
    if (!names.empty()) append_json_string(text += R"(,"version_name":)", names);
    text += '}';
  };
  for (const StatusReply& router : routers) {
    const std::string name = field_of(router, "model"), version = field_of(router, "model_version");
    const std::string names = field_of(router, "model_version_name");
    for (const std::string& alias : aliases) add(router, alias, version, names);
    if (aliases.empty()) add(router, name.empty() ? version : name, name.empty() ? "" : version, names);
    if (const std::string share = field_of(router, "next_share");
        !share.empty()) {  // two models share the users
      const std::string next = field_of(router, "next_model");
      add(router, name.empty() ? next : name, name.empty() ? "" : next, field_of(router, "next_model_name"));
      text.insert(text.size() - 1, R"(,"share":)" + share);
    }
  }
  return {200, text + "]}"};
}

HttpServer::Answer HttpServer::Answer::of_info(std::span<const StatusReply> routers,
                                               const HttpServerConfig& config) {
  if (routers.empty()) return of_models(routers, {});
  const StatusReply& router = routers.front();
  const std::string name = field_of(router, "model"), version = field_of(router, "model_version");
  const bool reranks = (config.models.empty() ? config.text : config.models.front().text).ranks_texts();
  const ServerLimits& limits = config.models.empty() ? config.limits : config.models.front().limits;
  std::string text = R"({"model_id":)";
  append_json_string(text, AnsweringModel{name, {}, config.model_names}.shown().empty()
                               ? version
                               : AnsweringModel{name, {}, config.model_names}.shown());
  append_json_string(text += R"(,"model_sha":)", version);
  text += R"(,"model_type":)";
  text += reranks ? R"({"reranker":{"id2label":{"0":"yes"},"label2id":{"yes":0}}})" : "{}";
  text += R"(,"max_input_length":)" + std::to_string(limits.prompt_tokens_max) +
          R"(,"max_client_batch_size":)" +
          std::to_string(reranks ? limits.score_items_max : limits.candidates_max);
  append_json_string(text += R"(,"version":)", config.version);
  return {200, text + "}"};
}

HttpServer::Server::Server(HttpServerConfig c, Post p, MetricRegistry& m, LogSink l)
    : config(std::move(c)),
      post(std::move(p)),
      metrics(m),
      log(std::move(l)),
      places(connection_limits(config)),
      pauses(config.tenant_pause_us),
      security(make_tls_context(config.certificate)),
      keys(config.keys),
      in_flight(config.connections_max, config.connections_per_address_max),
      health_reserve(health_reserve_limits),
      last_id(config.last_id),
      drawn((std::uint64_t{std::random_device{}()} << 32) | std::random_device{}()),
      acceptor(io),
      rpc_acceptor(io),
      client_watch(io),
      pause(io),
      line_budget(8 * at_once_max(), 250 * at_once_max()),  // at most about a tenth of the thread's time
      readers(reader_threads(), bodies_waiting_max),
      line_readers(1, std::numeric_limits<std::size_t>::max()) {}

HttpServer::Server::Waiting& HttpServer::Server::wait(std::int64_t us) {
  const RequestId id = ++last_id;
  Waiting& w = waiting[id];
  w.us = us;
  w.timer = std::make_unique<asio::steady_timer>(io, microseconds(us));
  w.timer->async_wait([this, id](beast::error_code error) {
    if (!error) expire(id);
  });
  return w;
}

std::int64_t HttpServer::Server::now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

RequestId HttpServer::Server::ask_router(Message message, const TraceContext& trace, std::string tenant,
                                         const ServerModel* model, OnAnswer then,
                                         decltype(ShapedRequest::body) shape, OwnNames names) {
  const bool is_reload = std::holds_alternative<Reload>(message);
  Waiting& waits = wait(is_reload ? config.reload_us_max : config.answer_us_max);
  waits.on_answer = std::move(then);
  waits.shape = std::move(shape);
  waits.names = std::move(names);
  pauses.asks(tenant);
  waits.tenant = std::move(tenant);
  waits.model = model;
  waits.writes = is_write(message);
  if (auto* rank = std::get_if<RankRequest>(&message)) {
    if (rank->request_timestamp == 0) rank->request_timestamp = since_1970_s();
    waits.named = rank->arrangement;
  }
  if (auto* generate = std::get_if<GenerateRequest>(&message); generate && generate->request_timestamp == 0)
    generate->request_timestamp = since_1970_s();
  if (auto* embed = std::get_if<EmbedRequest>(&message); embed && embed->request_timestamp == 0)
    embed->request_timestamp = since_1970_s();
  const RequestId id = last_id;
  set_id(message, id);
  set_trace(message, trace);
  post(model ? model->router : config.router, std::move(message));
  return id;
}

std::variant<std::string, Refusal> HttpServer::Server::begin_count(const ApiKey* key,
                                                                   const std::string& tenant) {
  const bool of_key = key && (key->rate > 0 || key->at_once > 0);
  const RateLimit limit = of_key ? RateLimit{key->rate, key->at_once} : config.tenant_limit;
  return rates.begin(of_key ? "key " + key->id : "tenant " + tenant, limit, now_us());
}

void HttpServer::Server::ask_status(const std::vector<Address>& actors, OnStatus then) {
  Waiting& waits = wait(status_us_max);
  waits.on_status = std::move(then);
  waits.asked = actors.size();
  for (Address actor : actors) post(actor, StatusRequest{last_id});
}

void HttpServer::Server::deliver(const Message& answer) {
  const auto found = waiting.find(id_of(answer));
  if (found == waiting.end()) return;  // answered already, or too late
  if (const auto* status = std::get_if<StatusReply>(&answer)) {
    if (!found->second.on_status) return;
    auto& have = found->second.statuses;
    if (std::none_of(have.begin(), have.end(), [&](auto& s) { return actor_of(s) == actor_of(*status); }))
      have.push_back(*status);
    if (have.size() == found->second.asked) finish_status(found->first);
    return;
  }
  if (!found->second.on_answer) return;
  const OnAnswer then = std::move(found->second.on_answer);
  if (const auto* refused = std::get_if<Refused>(&answer))
    pauses.refused(found->second.tenant, refused->refusal, now_us());
  else
    pauses.answered(found->second.tenant);
  const ServerModel* const model = found->second.model;
  const ModelText& text = model ? model->text : config.text;
  const auto shape = std::move(found->second.shape);
  const OwnNames names = std::move(found->second.names);
  const Arrangement named = found->second.named;
  waiting.erase(found);
  if (const auto refusal = reject_if_other_arrangement(named, answer)) return then(Answer::of(*refusal));
  if (const auto* refused = std::get_if<Refused>(&answer); refused && names != OwnNames{})
    return then(Answer::of(with_own_names(refused->refusal, names)));
  if (shape && !std::holds_alternative<Refused>(answer)) {
    auto body =
        shape(answer, {.name = model ? model->name : "", .aliases = config.model_names}, since_1970_s());
    const auto* refusal = std::get_if<Refusal>(&body);
    if (refusal && refusal->code == "unknown_model" && !model) return shape_by_versions(answer, shape, then);
    return then(shaped(answer, std::move(body)));
  }
  if (const auto* completed = std::get_if<CompleteReply>(&answer)) {
    CompleteReply reply = *completed;
    if (model) reply.model_version = model->name;  // as the client knows it
    if (!model && !config.model_names.empty()) reply.model_version = config.model_names.front();
    return then({.body = completion_body(reply, text, since_1970_s()), .run = run_of("complete", reply)});
  }
  then(Answer::of(answer, text));
}

HttpServer::Answer HttpServer::Server::shaped(const Message& answer,
                                              std::variant<std::string, Refusal> body) {
  if (const auto* refusal = std::get_if<Refusal>(&body)) return Answer::of(*refusal);
  return {.body = std::get<std::string>(std::move(body)), .run = run_of(answer)};
}

// Called when the answer's version differs from the requested model: it may be the other of two
// that share the users, or an unknown name.
void HttpServer::Server::shape_by_versions(const Message& answer, const decltype(ShapedRequest::body)& shape,
                                           OnAnswer then) {
  ask_status({config.router}, [answer, shape, aliases = config.model_names,
                               then = std::move(then)](const std::vector<StatusReply>& replies) {
    if (replies.empty())
      return then(Answer::of(Refusal{RefusalKind::unavailable, "not_ready", "the router does not answer",
                                     "router", "a router that answers"}));
    then(shaped(answer, shape(answer, {.versions = versions_of(replies.front()), .aliases = aliases},
                              since_1970_s())));
  });
}

void HttpServer::Server::expire(RequestId id) {
  const auto found = waiting.find(id);
  if (found == waiting.end()) return;
  if (found->second.on_status) return finish_status(id);
  const OnAnswer then = std::move(found->second.on_answer);
  const Refusal refusal = no_answer(found->second.writes, found->second.us);
  pauses.answered(found->second.tenant);
  waiting.erase(found);
  then(Answer::of(refusal));
}

void HttpServer::Server::finish_status(RequestId id) {
  auto node = waiting.extract(id);
  std::vector<StatusReply>& replies = node.mapped().statuses;
  std::sort(replies.begin(), replies.end(),
            [](const StatusReply& a, const StatusReply& b) { return actor_of(a) < actor_of(b); });
  node.mapped().on_status(std::move(replies));
}

// Adds the actors that did not answer, and the names of nodes.
std::string HttpServer::Server::cluster_json(const std::vector<StatusReply>& replies) const {
  std::string text = to_json(replies), names;
  text.pop_back();
  text += ",\"silent\":[";
  for (const Address& actor : config.actors) {
    const NodeId node = config.actor_ids.node_of(actor.node);
    const bool of_one = is_of_model(actor.role) && !config.models.empty();
    const std::string model = of_one ? config.models.at(config.actor_ids.model_of(actor.node)).name : "";
    if (std::ranges::any_of(replies,
                            [&](auto& r) { return actor_of(r) == std::tuple(node, actor.role, model); }))
      continue;
    text += text.ends_with('[') ? "{\"node\":" : ",{\"node\":";
    const std::string name = name_of(actor);
    append_json_string(text += std::to_string(node) + ",\"role\":", name.substr(0, name.find('@')));
    if (!model.empty()) append_json_string(text += ",\"model\":", model);
    text += '}';
  }
  for (const auto& [node, name] : config.names) {
    names.append(names.empty() ? "\"" : ",\"").append(std::to_string(node)).append("\":");
    append_json_string(names, name);
  }
  return text + "],\"names\":{" + names + "}}";
}

// Uses the client's trace, or a new one; `parent` becomes the client's span.
TraceContext HttpServer::Server::new_trace(std::string_view traceparent, std::uint64_t& parent) {
  auto trace = read_traceparent(traceparent);
  parent = trace ? trace->span : 0;
  if (!trace) {
    trace = TraceContext{next_random(drawn), next_random(drawn) | 1, 0, false};
    trace->sampled = config.sampled_share > 0 &&
                     static_cast<double>(next_random(drawn) >> 11) * 0x1p-53 < config.sampled_share;
  }
  trace->span = next_random(drawn) | 1;
  return *trace;
}

void HttpServer::Server::note(ObservedRequest seen) {
  metrics.record(Metric::http_responses, 1, seen.route + "\t" + std::to_string(seen.status));
  if (log && is_logged(config.access_log, seen) &&
      (config.access_log == AccessLog::all || error_lines.take(now_us()))) {
    std::vector<LogField> fields = access_fields(seen);
    if (const std::uint64_t left_out = error_lines.take_left_out(); left_out > 0)
      fields.push_back({"left_out", left_out});
    log(LogLevel::info, "door", "request", fields);
  }
  if (seen.trace.sampled && config.on_sampled) config.on_sampled(seen);
  if (!seen.run.kind.empty() || seen.status >= 500) slowest.add(now_us(), std::move(seen));
}

// `tenant`: whose requests the caller may see; nullopt = all.
void HttpServer::Server::answer_question(ServerQuestion question, std::string_view accept,
                                         const std::optional<std::string>& tenant, OnAnswer then) {
  if (question == ServerQuestion::live) return then({200, "{\"live\":true}"});
  if (question == ServerQuestion::server) return then({200, server_metadata(config.version)});
  if (question == ServerQuestion::metrics) {
    const bool open = accept.find("application/openmetrics-text") != accept.npos;
    const MetricForm form = open ? MetricForm::openmetrics : MetricForm::prometheus;
    return then(
        {200, config.metrics ? config.metrics(form) : metrics.render(form),
         open ? "application/openmetrics-text; version=1.0.0; charset=utf-8" : "text/plain; version=0.0.4"});
  }
  if (question == ServerQuestion::page)
    return then(
        {.body = std::string(page_text()), .type = "text/html; charset=utf-8", .security = page_security()});
  if (question == ServerQuestion::openapi) return then({200, openapi()});
  if (question == ServerQuestion::slowest) return then({200, slowest.to_json(now_us(), tenant)});
  if (question == ServerQuestion::models)
    return ask_status(routers_of(config),
                      [this, then = std::move(then)](const std::vector<StatusReply>& replies) {
                        then(Answer::of_models(replies, config.model_names));
                      });
  if (question == ServerQuestion::info)
    return ask_status(routers_of(config),
                      [this, then = std::move(then)](const std::vector<StatusReply>& replies) {
                        then(Answer::of_info(replies, config));
                      });
  if (question == ServerQuestion::cluster)
    return ask_status(config.actors, [this, then = std::move(then)](const std::vector<StatusReply>& replies) {
      then({200, cluster_json(replies)});
    });
  if (retired)
    return then(Answer::of(Refusal{RefusalKind::unavailable, "not_ready", "this node is shutting down",
                                   "cluster", "another node"}));
  const auto& asked = config.must_be_ready.empty() ? config.actors : config.must_be_ready;
  const std::string obstacle = config.obstacle ? config.obstacle() : "";
  ask_status(asked, [count = asked.size(), obstacle,
                     degraded = config.degraded ? config.degraded() : Reasons(),
                     then = std::move(then)](std::vector<StatusReply> replies) {
    std::string missing = replies.size() < count ? "an actor does not answer" : obstacle;
    for (const StatusReply& r : replies)
      if (!r.ready) missing = why_not_ready(r);
    if (missing.empty()) return then({200, ready_json(replies, degraded)});
    then(Answer::of(Refusal{RefusalKind::unavailable, "not_ready", missing, "cluster", "every actor ready"}));
  });
}

void HttpServer::Server::answer_model_question(const ModelQuestion& question, const ServerModel* model,
                                               OnAnswer then) {
  ask_status({model ? model->router : config.router}, [question, aliases = config.model_names,
                                                       then = std::move(then)](
                                                          const std::vector<StatusReply>& replies) {
    if (replies.empty())
      return then(Answer::of(Refusal{RefusalKind::unavailable, "not_ready", "the router does not answer",
                                     "router", "a router that answers"}));
    const StatusReply& router = replies.front();
    const std::string name = field_of(router, "model");
    std::string version = field_of(router, "model_version");
    if (const auto other =
            reject_if_other_model(question.model, {name, versions_of(router), aliases}, version))
      return then(Answer::of(*other));
    for (const std::vector<std::string>& names : named_versions(router))
      if (name.empty() && std::ranges::count(names, question.model) > 0) version = names.front();
    if (!question.ready)
      return then({200, model_metadata(question.model, version, field_of(router, "model_serves"))});
    if (!router.ready)
      return then(Answer::of(Refusal{RefusalKind::unavailable, "not_ready", why_not_ready(router), "model",
                                     "a model that is ready"}));
    std::string body = "{\"name\":";
    append_json_string(body, question.model);
    then({200, body + ",\"ready\":true}"});
  });
}

HttpServer::HttpServer(HttpServerConfig config, Post post, MetricRegistry& metrics, LogSink log)
    : server_(std::make_unique<Server>(std::move(config), std::move(post), metrics, std::move(log))) {
  server_->bind();
}

HttpServer::~HttpServer() { close(); }

void HttpServer::open() {
  server_->accept(server_->acceptor);
  if (server_->rpc_acceptor.is_open()) server_->accept(server_->rpc_acceptor);
  server_->thread = std::thread([server = server_.get()] { server->io.run(); });
}

void HttpServer::renew(const ServerCertificate& certificate, std::shared_ptr<const ApiKeys> keys) {
  auto security = make_tls_context(certificate);
  asio::post(server_->io,
             [server = server_.get(), security = std::move(security), keys = std::move(keys)]() mutable {
               server->security = std::move(security);
               server->keys = std::move(keys);
             });
}

void HttpServer::renew(const ServerCertificate& certificate) {
  asio::post(server_->io, [server = server_.get(), security = make_tls_context(certificate)]() mutable {
    server->security = std::move(security);
  });
}

void HttpServer::renew(std::shared_ptr<const ApiKeys> keys) {
  asio::post(server_->io,
             [server = server_.get(), keys = std::move(keys)]() mutable { server->keys = std::move(keys); });
}

void HttpServer::retire() {
  asio::post(server_->io, [server = server_.get()] { server->retired = true; });
}

void HttpServer::follow(std::vector<Address> actors, std::map<NodeId, std::string> names) {
  asio::post(server_->io,
             [server = server_.get(), actors = std::move(actors), names = std::move(names)]() mutable {
               server->config.actors = std::move(actors);
               server->config.names = std::move(names);
             });
}

void HttpServer::run(std::function<void()> action) { asio::post(server_->io, std::move(action)); }

void HttpServer::close() {
  if (!server_->thread.joinable()) return;
  asio::post(server_->io, [server = server_.get()] { server->stop(); });
  server_->thread.join();
}

const std::string& HttpServer::address() const { return server_->config.address; }
std::uint16_t HttpServer::port() const { return server_->config.port; }

std::uint16_t HttpServer::rpc_port() const {
  return server_->rpc_acceptor.is_open() ? server_->config.rpc_port : 0;
}

void HttpServer::deliver(Message answer) {
  asio::post(server_->io, [server = server_.get(), answer = std::move(answer)] { server->deliver(answer); });
}

}  // namespace troupe::server
