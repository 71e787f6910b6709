// Handles calls that came by another protocol (gRPC) in the same way as HTTP requests: keys,
// limits, models, router, access log.
#include "server/http/http_server_calls.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "server/formats/http_refusal.h"
#include "server/formats/tenant_name.h"
#include "server/http/http_server_state.h"

namespace troupe::server {

namespace {

ServerReply stopped_call() {
  const Refusal refusal{RefusalKind::unavailable, "stopping", "the server is stopping", "server",
                        "another server"};
  return {refusal.kind, to_json(refusal), refusal.code};
}

}  // namespace

void set_client_request_id(Message& message, std::string_view id) {
  std::visit(
      [&](auto& m) {
        if constexpr (requires { m.client_request_id; }) m.client_request_id = id;
      },
      message);
}

// A call that is destroyed without an answer reports that the server stops.
class HttpServer::Call : public std::enable_shared_from_this<Call> {
 public:
  Call(ServerCall asked, OnServerReply then) : asked_(std::move(asked)), then_(std::move(then)) {}
  ~Call() {
    if (then_) then_(stopped_call());
  }
  Call(const Call&) = delete;

  void begin(Server& server) {
    if (server.closing) return;
    began_ = std::chrono::steady_clock::now();
    seen_ = {.method = "POST", .route = asked_.route};
    seen_.began_us = std::chrono::duration_cast<std::chrono::microseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    seen_.trace = server.new_trace(asked_.traceparent, seen_.parent);
    seen_.request_id = asked_.request_id.empty() ? trace_id(seen_.trace) : asked_.request_id;
    seen_.bytes_in = asked_.bytes_in;
    server.metrics.record(Metric::http_requests, 1);
    if (auto refusal = ask(server)) end(server, Answer::of(*refusal));
  }

 private:
  std::optional<Refusal> ask(Server& server) {
    if (auto refusal = find_tenant_fault(asked_.tenant)) {
      asked_.tenant.clear();
      return refusal;
    }
    const ApiKey* key = nullptr;
    if (server.keys) {
      auto found = server.keys->find(asked_.authorization, asked_.tenant);
      if (auto* refusal = std::get_if<Refusal>(&found)) return std::move(*refusal);
      key = std::get<ApiKeys::Caller>(found).key;
      if (auto refusal = reject_without_right(*key, KeyRight::ask)) return refusal;
      asked_.tenant = std::move(std::get<ApiKeys::Caller>(found).tenant);
    }
    auto begun = server.begin_count(key, asked_.tenant);
    if (auto* refusal = std::get_if<Refusal>(&begun)) return std::move(*refusal);
    counted_ = std::get<std::string>(std::move(begun));
    if (const auto* reported = server.pauses.find(asked_.tenant, server.now_us())) {
      server.metrics.record(Metric::tenant_refused, 1, asked_.tenant);
      end(server, Answer::of(*reported));
      return std::nullopt;
    }
    if (asked_.fault) return std::move(asked_.fault);
    auto chosen = choose_model(asked_.model, asked_.kind, server.config.models);
    if (auto* refusal = std::get_if<Refusal>(&chosen)) return std::move(*refusal);
    const ServerModel* model = std::get<const ServerModel*>(chosen);
    if (model) seen_.model = model->name;
    std::visit(
        [&](auto& message) {
          if constexpr (requires { message.tenant; }) message.tenant = asked_.tenant;
        },
        asked_.asked.message);
    set_client_request_id(asked_.asked.message, asked_.request_id);
    server.ask_router(
        std::move(asked_.asked.message), seen_.trace, asked_.tenant, model,
        [self = shared_from_this(), &server](Answer answer) { self->end(server, std::move(answer)); },
        std::move(asked_.asked.body));
    return std::nullopt;
  }

  void end(Server& server, Answer answer) {
    server.rates.end(counted_);
    if (answer.status >= 400) server.metrics.record(Metric::http_refused, 1, answer.code);
    seen_.tenant = asked_.tenant;
    seen_.status = answer.status;
    seen_.code = answer.code;
    seen_.run = answer.run;
    seen_.bytes_out = answer.body.size();
    seen_.took_us =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began_)
            .count();
    server.note(std::move(seen_));
    std::exchange(then_, nullptr)(
        {answer.refused, std::move(answer.body), std::move(answer.code), answer.retry_after_s});
  }

  ServerCall asked_;
  OnServerReply then_;  // null = already answered
  ObservedRequest seen_;
  std::string counted_;
  std::chrono::steady_clock::time_point began_;
};

void HttpServer::Server::take_calls() {
  std::vector<std::shared_ptr<Call>> come;
  {
    const std::lock_guard lock(calls_mutex);
    come.swap(calls);
  }
  for (const auto& call : come) call->begin(*this);
}

void HttpServer::Server::end_calls() {
  std::vector<std::shared_ptr<Call>> left;
  const std::lock_guard lock(calls_mutex);
  calls_closed = true;
  left.swap(calls);
}

void HttpServer::ask(ServerCall call, OnServerReply then) {
  const auto made = std::make_shared<Call>(std::move(call), std::move(then));
  {
    const std::lock_guard lock(server_->calls_mutex);
    if (server_->calls_closed) return;
    server_->calls.push_back(made);
  }
  asio::post(server_->io, [server = server_.get()] { server->take_calls(); });
}

}  // namespace troupe::server
