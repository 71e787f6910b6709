#pragma once
// The parts of a connection over HTTP/2 besides its Session: the protocol's state and its open requests.
// The memory of all of them counts as the connection's. The connection waits for its client while a
// request is being received or an answer sent, and may then close for another; it does not while the
// actors have all of its requests.
//
// Each request has a deadline, as over HTTP/1.1: the time to send it, and the time to read its
// answer, are http.timeout. A request whose client has gone stays counted until the actors have
// answered it, so that resets do not get a client more than its share.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "server/http/http_server_bulk.h"
#include "server/http/http_server_state.h"
#include "server/http2/http2_session.h"

namespace troupe::server {

// Returns how many bytes of one body a client may send before they are consumed: fewer than usual where all
// requests have little memory.
std::uint32_t http2_window_bytes(const HttpServerConfig& config);

struct HttpServer::Http2Connection {
  struct Stream;

  explicit Http2Connection(Session& session);
  ~Http2Connection();

  void begin(std::string_view bytes);  // the first bytes of the client, if some were read
  void stop();                         // the server closes

  void read();
  void receive(std::string_view bytes);
  void pump();  // sends what is to be sent
  void end();   // everything is sent: closes

  // events of the protocol
  void handle_events();
  void head(Http2Event& event);
  void begin_body(Stream& stream, const Http2Event& event);
  void data(const Http2Event& event);
  void request_ended(Http2StreamId id);
  void closed(const Http2Event& event);

  // steps of one request
  void handle(Stream& stream);
  void ask(Stream& stream, RoutedBody routed);
  void release_head(Stream& stream);
  void read_call(Stream& stream);
  void act(Stream& stream, RpcActions actions);
  void call_router(Stream& stream, ServerCall call);
  template <class Question>
  void ask_actors(Stream& stream, Question question);
  void ask_readiness(Stream& stream);
  void delay(Stream& stream, Answer answer);
  bool enter_flight(Stream& stream);             // false = there is no capacity
  void begin_flight(Stream& stream);             // also of health beyond the capacity
  void answered(Stream& stream, Answer answer);  // by the actors
  void answer(Stream& stream, Answer answer);
  void refuse(Stream& stream, const Refusal& refusal);

  // http_server_http2_bulk.cc: requests of many lines
  void begin_bulk(Stream& stream, BulkKind kind);
  void next_lines(Stream& stream);
  void open_window(Stream& stream, bool needs_bytes);
  void ask_lines_later(Stream& stream, std::shared_ptr<Exchange::Batch> batch, std::int64_t us);
  void ask_lines(Stream& stream, Exchange::Batch& batch);
  // Asks the lines of a stream that waited, unless it or its connection is gone.
  static void resume_lines(Stream& stream, Exchange::Batch& batch);
  void ask_line(Stream& stream, RoutedBody routed);
  void line_is_answered(Stream& stream, std::size_t index, const Answer& answer);
  bool keep_result(Exchange::Bulk& bulk, std::size_t index, std::string result);
  bool book_bulk();
  void write_results(Stream& stream);

  std::optional<Refusal> begin_stream(Stream& stream, Http2Event& event);
  Stream* find(Http2StreamId id);
  void set_deadline(Stream& stream);
  void check_deadlines();
  void start_timer(std::int64_t us);
  void go_away();  // no further requests
  void update_state();
  std::size_t held_bytes() const;
  // Counts its memory, and `more`. Returns false if something of this connection has to give way.
  bool fits(std::size_t more = 0);

  Session& session;  // owns this
  Server& server;
  Http2Session protocol;
  std::map<Http2StreamId, std::shared_ptr<Stream>> streams;
  std::string in, out;        // bytes being read, being written
  std::uint32_t flights = 0;  // requests that the actors have, also of closed streams
  bool reading = false, handling = false, going = false, ending = false, is_waiting = true, reported = false;
  std::int64_t began_us = 0, idle_since_us = 0;
  asio::steady_timer timer;
};

struct HttpServer::Http2Connection::Stream : HttpServer::Exchange, std::enable_shared_from_this<Stream> {
  enum class At : std::uint8_t { reading, queued, delayed, serving, writing };  // queued: for another thread

  Stream(Session& s, Http2StreamId number)
      : Exchange(s.server), session(s.weak_from_this()), id(number), from(s.from) {}
  ~Stream() { leave_flight(); }

  void leave_flight() {
    if (std::exchange(in_flight, false)) end_flight();
  }
  void end_flight() {  // of its request, or of one line
    server.in_flight.leave(from, abandoned > 0);
    if (abandoned > 0) --abandoned;
  }
  std::int64_t elapsed_us() const;
  void actors_answered(Answer answer);  // to the request, or for a stream that is gone

  const std::weak_ptr<Session> session;
  const Http2StreamId id;
  const Origin from;
  At at = At::reading;
  std::int64_t deadline_us = 0;
  std::optional<RequestBody> body;
  std::unique_ptr<RpcCall> rpc;                // null = a request of HTTP
  std::unique_ptr<Exchange::Bulk> bulk;        // a request of many lines
  std::size_t unconsumed = 0;                  // bytes of `bulk` that still fill the client's window
  std::unique_ptr<asio::steady_timer> pacing;  // delays a refusal
  std::optional<BodyReaders::JobId> queued;    // lines that wait for another thread
  std::vector<RequestId> requests;             // of it or its current lines; some may be answered
  std::uint32_t abandoned = 0;                 // requests that were withdrawn and are not answered
  std::size_t beside_bytes = 0;                // of `rpc` while another thread reads it; 0 = none does
  bool in_flight = false, has_begun = false, noted = false;
  bool gone = false;  // the client no longer waits: the request need not be begun

  void withdraw();                  // the client has gone
  void is_read(RoutedBody routed);  // by another thread
  void abandon();                   // logs that the client has gone before the actors were asked
  // Ends what enter_flight() began. Returns the connection; null = the client has gone.
  std::shared_ptr<Session> finish_flight();
  void note_gone(Answer answer);  // logs that the client has gone
};

}  // namespace troupe::server
