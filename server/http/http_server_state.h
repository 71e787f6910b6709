#pragma once
// State of the server's one thread, and of one connection. Only http_server*.cc include it.
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/http/body_readers.h"
#include "server/http/connection_limiter.h"
#include "server/http/http_head.h"
#include "server/http/http_server.h"
#include "server/http/http_server_tls.h"
#include "server/http/http_stream.h"
#include "server/http/in_flight_limiter.h"
#include "server/http/line_budget.h"
#include "server/http/request_body.h"
#include "server/http/tenant_pauses.h"
#include "server/observability/observed_request.h"
#include "server/observability/slowest.h"

namespace troupe::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;

inline constexpr unsigned client_gone_status = 499;  // only logs and metrics have it

// Refusal of a request or result for which there is no memory.
Refusal too_much_kept(const HttpServerConfig& config);
Refusal only_rpc();                            // it came to the address for gRPC
Refusal full(const HttpServerConfig& config);  // all connections are being served

// Frees the memory of a text; an assignment of an empty one keeps it.
inline void release(std::string& text) { std::string().swap(text); }

// Sets the client's x-request-id in a message that has a field for it; "" = the client gave none.
void set_client_request_id(Message& message, std::string_view id);

struct HttpServer::Answer {
  unsigned status = 200;
  std::string body;
  std::string type = "application/json";
  std::string allow;                        // of a wrong method: the supported methods
  unsigned retry_after_s = 0;               // 0 = not set
  std::string etag = {};                    // version of the stored object as entity tag; "" = none
  std::string security;                     // Content-Security-Policy of a page
  std::string code;                         // error code of a refusal
  ObservedRun run = {};                     // facts about the computation
  std::optional<RefusalKind> refused = {};  // set if and only if this is a refusal; gives `status`

  static Answer of(const Refusal& refusal);
  static Answer of(const TenantPauses::StoredRefusal& refusal);
  static Answer of(const Message& message, const ModelText& text = {});
  // Writes OpenAI's list of models, with the request kinds of each; a refusal if no router
  // answered.
  // `aliases`: further names of a model without a name.
  static Answer of_models(std::span<const StatusReply> routers, const std::vector<std::string>& aliases);
  // Writes the model in the form of TEI.
  static Answer of_info(std::span<const StatusReply> routers, const HttpServerConfig& config);
};

// A body as it was routed, and its model if there are several.
struct RoutedBody {
  HttpRoute route = Refusal{};
  const ServerModel* model = nullptr;
};

struct HttpServer::Server {
  using OnAnswer = std::function<void(Answer)>;
  using OnStatus = std::function<void(std::vector<StatusReply>)>;

  // A question to the actors without an answer yet.
  struct Waiting {
    OnAnswer on_answer;                        // called with the router's answer
    decltype(ShapedRequest::body) shape;       // form of the answer; null = the message's own
    OwnNames names;                            // of the request, in refusals
    std::string tenant;                        // tenant of the request
    const ServerModel* model = nullptr;        // the model that was asked, if there are several
    Arrangement named = Arrangement::unnamed;  // arrangement that a ranking must have
    OnStatus on_status;                        // called with the status of all actors
    std::vector<StatusReply> statuses;
    std::size_t asked = 0;                       // number of actors asked for their status
    std::int64_t us = 0;                         // maximum wait
    bool writes = false;                         // what was asked may be stored although no answer has come
    ConnectionLimiter::ConnectionId client = 0;  // connection that waits for the answer; 0 = none is watched
    std::unique_ptr<asio::steady_timer> timer;
  };

  Server(HttpServerConfig config, Post post, MetricRegistry& metrics, LogSink log);

  void bind();
  void accept(Tcp::acceptor& from);
  void accept_failed(Tcp::acceptor& from, const beast::error_code& error);
  void take(Tcp::socket socket, bool rpc_only);
  bool free_connection(ConnectionLimiter& places, Origin from);
  void close_connection(ConnectionLimiter::ConnectionId connection_id);
  void stop();
  Waiting& wait(std::int64_t us);
  // Counts the request by its key if the key has its own limits, else by its tenant. Returns the
  // name to end it with, or a refusal.
  std::variant<std::string, Refusal> begin_count(const ApiKey* key, const std::string& tenant);
  // Returns the id of the request.
  RequestId ask_router(Message message, const TraceContext& trace, std::string tenant,
                       const ServerModel* model, OnAnswer then, decltype(ShapedRequest::body) shape = {},
                       OwnNames names = {});
  static std::int64_t now_us();
  void ask_status(const std::vector<Address>& actors, OnStatus then);
  // http_server_clients.cc
  std::size_t at_once_max() const;              // largest body that this thread reads, in bytes
  bool reads_at_once(std::size_t bytes) const;  // false = a body of that size is read on another thread
  bool reads_lines_at_once(std::size_t bytes);  // the same for lines of a bulk request, which share a budget
  BodyReaders::Job job_beside(std::function<void()> read, std::function<void()> then);
  // Runs `read` on another thread and then `then` on this one. Returns false if too many bodies wait.
  bool read_beside(std::function<void()> read, std::function<void()> then);
  BodyReaders::JobId read_lines_beside(std::function<void()> read, std::function<void()> then);
  void watch(RequestId id, ConnectionLimiter::ConnectionId client);
  void look_at_clients();
  // Tells the router that nobody waits for the answer any more. The request counts until its answer has
  // come. Returns false if it has come.
  bool withdraw(RequestId id);
  void cancel(RequestId id);  // as withdraw(), and the request counts no more
  void deliver(const Message& answer);
  static Answer shaped(const Message& answer, std::variant<std::string, Refusal> body);
  void shape_by_versions(const Message& answer, const decltype(ShapedRequest::body)& shape, OnAnswer then);
  void expire(RequestId id);
  void finish_status(RequestId id);
  void answer_question(ServerQuestion question, std::string_view accept,
                       const std::optional<std::string>& tenant, OnAnswer then);
  void answer_model_question(const ModelQuestion& question, const ServerModel* model, OnAnswer then);
  std::string cluster_json(const std::vector<StatusReply>& replies) const;
  TraceContext new_trace(std::string_view traceparent, std::uint64_t& parent);
  void note(ObservedRequest seen);

  HttpServerConfig config;
  Post post;
  MetricRegistry& metrics;
  LogSink log;
  ConnectionLimiter places;  // for all requests
  TenantPauses pauses;
  std::shared_ptr<asio::ssl::context> security;  // for new connections; null = no TLS
  std::shared_ptr<const ApiKeys> keys;
  RateLimits rates;
  InFlightLimiter in_flight;  // requests over HTTP/2
  ConnectionLimiter
      health_reserve;  // reserve for health and metrics, used when no other connection can close
  std::map<ConnectionLimiter::ConnectionId, Session*> sessions;
  ConnectionLimiter::ConnectionId last_connection = 0;
  bool closing = false, retired = false;
  std::uint64_t accepts_failed = 0;  // since the last log line
  bool accepted_since = true;        // true = a connection was accepted since the last failure
  std::chrono::steady_clock::time_point failure_logged;
  RequestId last_id;
  std::uint64_t drawn;  // state of the generator for trace and span ids
  SlowestRequests slowest;
  ErrorLines error_lines;
  asio::io_context io{1};  // holds the sessions; members that they use while closing are declared before it
  Tcp::acceptor acceptor, rpc_acceptor;  // the second is open only if there is an rpc_address
  asio::steady_timer client_watch;       // between looks at the clients that wait
  bool watching = false;                 // the timer above is set
  asio::steady_timer pause;              // between attempts to accept; later the deadline of closing
  std::map<RequestId, Waiting> waiting;  // as many as connections, and as `in_flight` allows
  std::thread thread;
  LineBudget line_budget;
  BodyReaders readers;
  BodyReaders line_readers;  // one job for each bulk request at most; they do not delay other bodies
};

// One request with its caller, over whatever protocol it came: it is checked, counted, routed and
// logged the same way.
struct HttpServer::Exchange {
  explicit Exchange(Server& s) : server(s) {}
  ~Exchange() { end_count(); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void begin_request();
  bool reads() const { return asked.method == "GET" || asked.method == "HEAD"; }
  std::optional<Refusal> reject_if_of_other_site(const ServedHosts& served, bool for_health) const;
  std::optional<Refusal> identify_caller();           // finds the tenant by the request's key
  std::optional<std::string> visible_tenant() const;  // whose requests the caller may see; nullopt = all
  // counts against the rate limits; returns the name to end it with, or a refusal
  std::variant<std::string, Refusal> count();
  std::optional<Refusal> begin_count();
  void end_count();
  bool asks_for_health() const;
  ServerLimits limits_of(const ServerModel* model) const;
  RoutedBody route_body(std::string_view body) const;  // callable from a reader's thread
  // refusal to repeat for a paused tenant without reading the request; null = not paused
  const TenantPauses::StoredRefusal* pause_refusal();
  // Asks the actors, or answers what the server knows itself. Returns the id under which the router was
  // asked; 0 = it was not.
  RequestId dispatch(RoutedBody routed, Server::OnAnswer then);
  RequestId ask(ServerCall call, Server::OnAnswer then);
  RequestId ask(RpcQuestion question, Server::OnAnswer then);
  Answer unless_known(Answer answer) const;  // 304 if the client has that version already
  // fields of a response, except those about its body's length and the connection
  std::vector<std::pair<std::string, std::string>> fields_of(const Answer& answer) const;
  void note(const Answer& answer, std::size_t bytes);

  // http_server_bulk.cc: requests of many lines
  struct Bulk;
  struct Batch;
  std::optional<Refusal> reject_if_key_is_gone(Bulk& bulk);
  std::vector<std::string> take_lines(Bulk& bulk, RequestBody& body, const ConnectionLimiter& among) const;
  void route_lines(const Bulk& bulk, Batch& batch) const;  // callable from a reader's thread
  // Refuses the lines unread if their tenant is paused. Returns the delay in microseconds of the refusals.
  std::optional<std::int64_t> refuse_lines(const Bulk& bulk, Batch& batch);
  RoutedBody route_line(const Bulk& bulk, const std::string& line) const;

  Server& server;  // outlives every exchange: it owns the loop that holds them
  RequestHead::HeadFields asked;
  std::optional<ApiKey> key;         // key of the request
  std::vector<std::string> counted;  // names under which the rate limits count it
  ObservedRequest seen;              // filled while the request is handled
  std::chrono::steady_clock::time_point began;
};

// Serves the requests of one connection one after the other; a pipelined request waits in the
// socket.
struct HttpServer::Session : HttpServer::Exchange, std::enable_shared_from_this<Session> {
  Session(Server& server, Tcp::socket socket, ConnectionLimiter& among,
          ConnectionLimiter::ConnectionId connection_id);
  ~Session();

  void begin();
  void read();
  void read_head();
  bool takes_http2();  // true once the client has begun to speak HTTP/2
  void begin_http2(std::string_view bytes);
  void head_is_read();
  void read_body();
  void read_failed(const beast::error_code& error);
  void set_bytes(std::size_t bytes);  // kept for this connection
  bool fits();
  bool keep();
  bool is_for_health() const;
  void handle();
  void ask(RoutedBody routed);
  bool client_has_gone();
  void probe();
  void refuse_and_close(const Refusal& refusal);

  // http_server_bulk.cc: requests of many lines
  void begin_bulk();
  void next_lines();
  void ask_lines_later(std::shared_ptr<Batch> batch, std::int64_t us);
  void ask_lines(Batch& batch);
  void ask_line(RoutedBody routed);
  void line_is_answered(std::size_t index, const Answer& answer, const std::string& row);
  bool keep_result(std::size_t index, std::string result);  // false = it does not fit, and is not kept
  bool book_bulk();
  void read_lines();
  void write_results();

  void write_later(Answer answer, std::int64_t us);
  void write(Answer answer, bool keep_alive);
  void close();
  void drain();
  void end();         // closes at once and frees its slot
  void stop_http2();  // tells the client that the server closes

  ConnectionLimiter& places;
  const ConnectionLimiter::ConnectionId connection_id;
  ClientStream stream;
  beast::flat_buffer buffer;
  std::optional<RequestHead> head;  // set while the head is read
  std::optional<RequestBody> body;
  std::string out_head, out_body;    // of a response until it is written
  asio::steady_timer refusal_timer;  // delays a refusal
  // true until the delayed refusal is sent: the timer may have expired before its handler runs
  bool awaits_refusal = false;
  bool writing = false;
  bool probed = false;  // an interim response was sent to find out whether the client is gone
  // answer that waits until the interim response is written, and whether the connection stays
  std::optional<std::pair<Answer, bool>> held_answer;
  std::unique_ptr<Bulk> bulk;  // set while a request of many lines is served
  Origin from = 0;
  bool rpc_only = false;                   // it came to the address that serves only gRPC
  bool is_first = true;                    // no request was read yet
  std::unique_ptr<Http2Connection> http2;  // set once the client speaks HTTP/2
};

}  // namespace troupe::server
