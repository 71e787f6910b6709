#pragma once
// A service over HTTP/2 whose requests and answers are messages (gRPC). The HTTP server gives a call
// its request's fields and bytes, and does what the call says next; it does not know the messages.
// Implementations are pure: times are arguments.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "server/http/http_routes.h"
#include "server/http2/http2_session.h"

namespace troupe::server {

// A request for the router. With several models, `kind` and `model` choose one.
struct ServerCall {
  std::string kind;                   // request kind that the model has to serve, as in /v1/models
  std::string model;                  // requested model; "" = any that serves the kind
  ShapedRequest asked;                // without tenant
  std::optional<Refusal> fault = {};  // found in the request; sent after the check of its rate
};

// A question that the server answers itself. The reply's body is that of HTTP.
using RpcQuestion = std::variant<ServerQuestion, ModelQuestion>;

struct ServerReply {
  std::optional<RefusalKind> refused = {};  // nullopt = answered
  std::string body;                         // in the form of `asked`, or a refusal in JSON
  std::string code;                         // error code of a refusal
  unsigned retry_after_s = 0;
};

// The next actions of the server. A call ends with its trailers.
struct RpcActions {
  std::string bytes;                    // to send
  std::optional<ServerCall> call;       // to ask; the reply goes to replied()
  std::optional<RpcQuestion> question;  // to answer; the reply goes to replied()
  bool asks_readiness = false;          // the answer goes to is_ready()
  std::optional<Http2Fields> trailers;  // to send after `bytes`
  std::optional<Refusal> refusal;       // why it ends, for the log; not set for what replied() was given
};

class RpcCall {
 public:
  virtual ~RpcCall() = default;

  virtual std::string_view route() const = 0;  // name in metrics and logs: of the method, or "other"
  virtual bool needs_key() const = 0;
  virtual RpcActions begin() = 0;  // the head has come
  // Bytes of the request have come; so many of the answer are not sent yet.
  virtual RpcActions receive(std::string_view bytes, std::size_t unsent) = 0;
  virtual RpcActions end(std::int64_t elapsed_us) = 0;  // the request is complete
  virtual RpcActions replied(const ServerReply& reply, std::int64_t elapsed_us) = 0;
  virtual RpcActions is_ready(bool ready) = 0;
  virtual RpcActions refuse(const Refusal& refusal) = 0;  // the server does not serve it
  virtual std::size_t held_bytes() const = 0;
};

class RpcService {
 public:
  virtual ~RpcService() = default;
  // Returns null if the request is not for this service.
  virtual std::unique_ptr<RpcCall> find_call(const Http2Fields& head) const = 0;
  virtual const Http2Fields& answer_fields() const = 0;  // of every answer
};

}  // namespace troupe::server
