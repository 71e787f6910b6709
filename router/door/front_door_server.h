#pragma once
// The state of the door's one thread, and of one connection. Seen by front_door*.cc only.
#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "router/door/door_places.h"
#include "router/door/front_door.h"
#include "router/door/front_door_head.h"
#include "router/door/request_body.h"
#include "router/door/tenant_pauses.h"
#include "router/watch/seen_request.h"
#include "router/watch/slowest.h"

namespace troupe::router {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;

struct FrontDoor::Answer {
  unsigned status = 200;
  std::string body;
  std::string type = "application/json";
  std::string allow;  // with 405: the methods that are served
  unsigned retry_after_s = 0;  // 0: nobody said
  std::string security;        // the Content-Security-Policy of a page
  std::string code;            // of a refusal
  SeenRun run = {};            // of what was computed

  static Answer of(const Refusal& refusal);
  static Answer of(const Message& message);
  // In the form of OpenAI's list of models, with what may be asked of each; no list if no router answered.
  static Answer of_models(std::span<const StatusReply> routers);
};

struct FrontDoor::Server {
  using OnAnswer = std::function<void(Answer)>;
  using OnStatus = std::function<void(std::vector<StatusReply>)>;

  // A question to the actors that is not answered yet.
  struct Waiting {
    OnAnswer on_answer;  // of the router
    std::string tenant;  // who asked it
    const DoorModel* model = nullptr;  // of several, the one that was asked
    OnStatus on_status;  // of all actors
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
  void ask_router(Message message, const TraceContext& trace, std::string tenant, const DoorModel* model, OnAnswer then);
  static std::int64_t now_us();
  void ask_status(const std::vector<Address>& actors, OnStatus then);
  void deliver(const Message& answer);
  void expire(RequestId id);
  void finish_status(RequestId id);
  void answer_question(DoorQuestion question, std::string_view accept, OnAnswer then);
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
  DoorPlaces lane;    // for health and metrics, when nobody can leave the others
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
  std::map<RequestId, Waiting> waiting;  // at most one per connection
  std::thread thread;
};

// Requests on a connection are served one after the other; a pipelined one waits in the socket.
struct FrontDoor::Session : std::enable_shared_from_this<Session> {
  Session(Server& server, Tcp::socket socket, DoorPlaces& among, DoorPlaces::Guest guest);
  ~Session();

  void read();
  void read_head();
  void head_is_read();
  void read_body();
  void read_failed(const beast::error_code& error);
  bool fits();
  bool keep();
  bool is_for_health() const;
  void handle();
  DoorRoute route_to(const DoorModel*& model) const;
  const TenantPauses::Told* find_pause();  // what its tenant is told without being heard; null: it is heard
  void refuse_and_close(const Refusal& refusal);
  void write_later(Answer answer, std::int64_t us);
  void begin();
  void note(const Answer& answer, std::size_t bytes);
  void write(Answer answer, bool keep_alive);
  void close();
  void drain();
  void end();  // at once; its place is free

  Server& server;  // outlives every session: it owns the loop that holds them
  DoorPlaces& places;
  const DoorPlaces::Guest guest;
  beast::tcp_stream stream;
  beast::flat_buffer buffer;
  std::optional<RequestHead> head;  // while it is read
  std::optional<RequestBody> body;
  RequestHead::Asked asked;
  SeenRequest seen;  // filled as it goes its way
  std::chrono::steady_clock::time_point began;
  http::response<http::string_body> response;
  asio::steady_timer turn;  // of a refusal that is not told at once
  bool awaits_turn = false;  // until that is told: the timer may be over, and its handler not yet begun
  bool writing = false;
};

}  // namespace troupe::router
