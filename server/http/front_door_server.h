#pragma once
// The state of the door's one thread, and of one connection. Seen by front_door*.cc only.
#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "server/http/door_places.h"
#include "server/http/front_door.h"
#include "server/http/front_door_head.h"
#include "server/http/front_door_stream.h"
#include "server/http/front_door_tls.h"
#include "server/http/request_body.h"
#include "server/http/tenant_pauses.h"
#include "server/observability/seen_request.h"
#include "server/observability/slowest.h"

namespace troupe::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;

struct FrontDoor::Answer {
  unsigned status = 200;
  std::string body;
  std::string type = "application/json";
  std::string allow;           // with 405: the methods that are served
  unsigned retry_after_s = 0;  // 0: nobody said
  std::string etag = {};       // of what is stored: its version; "": of nothing that is
  std::string security;        // the Content-Security-Policy of a page
  std::string code;            // of a refusal
  SeenRun run = {};            // of what was computed

  static Answer of(const Refusal& refusal);
  static Answer of(const Message& message, const ModelText& text = {});
  // In the form of OpenAI's list of models, with what may be asked of each; no list if no router answered.
  static Answer of_models(std::span<const StatusReply> routers);
};

struct FrontDoor::Server {
  using OnAnswer = std::function<void(Answer)>;
  using OnStatus = std::function<void(std::vector<StatusReply>)>;

  // A question to the actors that is not answered yet.
  struct Waiting {
    OnAnswer on_answer;                // of the router
    decltype(Shaped::body) shape;      // of its answer; none: its own
    std::string tenant;                // who asked it
    const DoorModel* model = nullptr;  // of several, the one that was asked
    OnStatus on_status;                // of all actors
    std::vector<StatusReply> statuses;
    std::size_t asked = 0;  // for their status
    std::int64_t us = 0;    // how long it waits
    std::unique_ptr<asio::steady_timer> timer;
  };

  Server(DoorConfig config, Post post, MetricRegistry& metrics, LogSink log);

  void bind();
  void accept();
  void accept_failed(const beast::error_code& error);
  void take(Tcp::socket socket);
  bool make_room(DoorPlaces& places, Origin from);
  void send_away(DoorPlaces::Guest guest);
  void stop();
  Waiting& wait(std::int64_t us);
  // By its key where that has limits of its own, else by its tenant. What ends it, or why it may not be.
  std::variant<std::string, Refusal> begin_count(const ApiKey* key, const std::string& tenant);
  void take_calls();  // that came another way
  void end_calls();   // when nobody takes them any more
  void ask_router(Message message, const TraceContext& trace, std::string tenant, const DoorModel* model,
                  OnAnswer then, decltype(Shaped::body) shape = {});
  static std::int64_t now_us();
  void ask_status(const std::vector<Address>& actors, OnStatus then);
  void deliver(const Message& answer);
  static Answer shaped(const Message& answer, std::variant<std::string, Refusal> body);
  void shape_by_versions(const Message& answer, const decltype(Shaped::body)& shape, OnAnswer then);
  void expire(RequestId id);
  void finish_status(RequestId id);
  void answer_question(DoorQuestion question, std::string_view accept, OnAnswer then);
  void answer_model_question(const ModelQuestion& question, const DoorModel* model, OnAnswer then);
  std::string cluster_json(const std::vector<StatusReply>& replies) const;
  TraceContext new_trace(std::string_view traceparent, std::uint64_t& parent);
  std::uint64_t draw();
  void note(SeenRequest seen);

  static constexpr std::int64_t pause_us = 20'000;

  DoorConfig config;
  Post post;
  MetricRegistry& metrics;
  LogSink log;
  DoorPlaces places;  // for whatever is asked
  TenantPauses pauses{pause_us};
  std::shared_ptr<asio::ssl::context> security;  // of new connections; null: in the clear
  std::shared_ptr<const ApiKeys> keys;
  RateLimits rates;
  DoorPlaces lane;  // for health and metrics, when nobody can leave the others
  std::map<DoorPlaces::Guest, Session*> sessions;
  DoorPlaces::Guest last_guest = 0;
  bool closing = false, retired = false;
  std::uint64_t accepts_failed = 0;  // since one was logged
  bool accepted_since = true;        // the last failure to accept
  std::chrono::steady_clock::time_point failure_logged;
  RequestId last_id;
  std::uint64_t drawn;  // for names of traces and spans
  SlowestRequests slowest;
  asio::io_context io{1};  // holds the sessions; what they use on their way out is declared before it
  Tcp::acceptor acceptor;
  asio::steady_timer pause;              // between attempts to accept; then, of the farewell
  std::map<RequestId, Waiting> waiting;  // at most one per connection, and one per call
  std::thread thread;
  std::mutex calls_mutex;  // what follows is every thread's
  std::vector<std::shared_ptr<Call>> calls;
  bool calls_closed = false;
};

// Requests on a connection are served one after the other; a pipelined one waits in the socket.
struct FrontDoor::Session : std::enable_shared_from_this<Session> {
  Session(Server& server, Tcp::socket socket, DoorPlaces& among, DoorPlaces::Guest guest);
  ~Session();

  void begin();
  void read();
  void read_head();
  void head_is_read();
  void read_body();
  void read_failed(const beast::error_code& error);
  bool fits();
  bool keep();
  bool is_for_health() const;
  bool reads() const { return asked.method == "GET" || asked.method == "HEAD"; }
  void handle();
  std::optional<Refusal> find_asker();         // whose the request is: its key's
  std::variant<std::string, Refusal> count();  // by the limits of rates; what ends it, or why it may not be
  std::optional<Refusal> begin_count();
  void end_count();
  DoorLimits limits_of(const DoorModel* model) const;
  DoorRoute route_to(const DoorModel*& model) const;
  const TenantPauses::Told* find_pause();  // what its tenant is told without being heard; null: it is heard
  void refuse_and_close(const Refusal& refusal);

  // front_door_bulk.cc: requests of many lines
  struct Bulk;
  void begin_bulk();
  void next_lines();
  DoorRoute route_line(const std::string& line, const DoorModel*& model) const;
  void ask_line(std::string line);
  void line_is_answered(std::size_t index, const Answer& answer, const std::string& row);
  void read_lines();
  void write_results();

  void write_later(Answer answer, std::int64_t us);
  void begin_request();
  void note(const Answer& answer, std::size_t bytes);
  void write(Answer answer, bool keep_alive);
  void close();
  void drain();
  void end();  // at once; its place is free

  Server& server;  // outlives every session: it owns the loop that holds them
  DoorPlaces& places;
  const DoorPlaces::Guest guest;
  DoorStream stream;
  beast::flat_buffer buffer;
  std::optional<RequestHead> head;  // while it is read
  std::optional<RequestBody> body;
  RequestHead::Asked asked;
  std::optional<ApiKey> key;         // with which it is asked
  std::vector<std::string> counted;  // where the limits of rates count it
  SeenRequest seen;                  // filled as it goes its way
  std::chrono::steady_clock::time_point began;
  std::string out_head, out_body;  // of an answer, until it is written
  asio::steady_timer turn;         // of a refusal that is not told at once
  bool awaits_turn = false;        // until that is told: the timer may be over, and its handler not yet begun
  bool writing = false;
  std::unique_ptr<Bulk> bulk;  // while a request of many lines is served
};

}  // namespace troupe::server
