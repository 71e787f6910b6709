// Serves a connection over HTTP/2: moves bytes between its socket and the protocol, and takes each
// request from its head to its answer.
#include "server/http/http_server_http2.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "server/http/http2_head.h"
#include "server/http/unanswered.h"

namespace troupe::server {

using std::chrono::microseconds;

namespace {

constexpr std::size_t read_at_once = 8 << 10, write_at_once = 64 << 10;
constexpr std::size_t queued_frames_max = 256;    // while the client does not read, more are not taken
constexpr std::size_t forgotten_bytes_max = 512;  // of a head whose request is with the actors
constexpr std::int64_t last_bytes_us = 500'000;   // to drop what the client still sends
constexpr std::int64_t ages = 60;                 // maximum age of a connection in http.timeout

Http2Limits http2_limits(const HttpServerConfig& config) {
  constexpr std::uint32_t frame_bytes = 16 << 10;  // of a client's frame at most
  Http2Limits limits{.streams_max = config.streams_max,
                     .head_bytes_max = config.header_bytes_max,
                     .heads_bytes_max = 16 * config.header_bytes_max,
                     .window_bytes = http2_window_bytes(config)};
  FrameLimits& frames = limits.frames;
  frames.header_block_bytes_max = std::max(frames.header_block_bytes_max, 2 * config.header_bytes_max);
  frames.continuations_max = std::max(frames.continuations_max, 2 * config.header_bytes_max / frame_bytes);
  return limits;
}

Refusal too_many_in_flight(const HttpServerConfig& config) {
  return {RefusalKind::unavailable, "overloaded", "too many requests are being served", "request",
          "at most " + std::to_string(config.connections_max) + " requests (http.connections_max), " +
              std::to_string(config.connections_per_address_max) +
              " from one address (http.connections_per_address_max), " + std::to_string(config.streams_max) +
              " on one connection (http.streams_max)"};
}

std::set<Http2StreamId> closed_streams(const std::vector<Http2Event>& events) {
  std::set<Http2StreamId> streams;
  for (const Http2Event& event : events)
    if (event.kind == Http2Event::Kind::closed) streams.insert(event.stream);
  return streams;
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

std::uint32_t http2_window_bytes(const HttpServerConfig& config) {
  constexpr std::uint64_t least = 16 << 10, usual = 65'535;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(config.memory_bytes_max / 8, least, usual));
}

std::int64_t HttpServer::Http2Connection::Stream::elapsed_us() const {
  return std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - began).count();
}

void HttpServer::Http2Connection::Stream::actors_answered(Answer answer) {
  if (const auto open = finish_flight()) return open->http2->answered(*this, std::move(answer));
  note_gone(std::move(answer));
}

std::shared_ptr<HttpServer::Session> HttpServer::Http2Connection::Stream::finish_flight() {
  leave_flight();
  auto open = session.lock();
  if (open) --open->http2->flights;
  return gone ? nullptr : open;
}

void HttpServer::Http2Connection::Stream::note_gone(Answer answer) {
  end_count();
  answer.status = client_gone_status, answer.code = "client_gone";
  note(answer, 0);
}

// A request that the actors have begun goes on, and counts until they have answered: resets are cheap for a
// client.
void HttpServer::Http2Connection::Stream::withdraw() {
  gone = true;
  if (pacing) pacing->cancel();  // frees what waits with it
  if (queued) server.line_readers.take_back(*queued);
  for (const RequestId request : std::exchange(requests, {}))
    if (server.withdraw(request)) ++abandoned, server.in_flight.abandon(from);
}

// ---- the connection ----

HttpServer::Http2Connection::Http2Connection(Session& s)
    : session(s), server(s.server), protocol(http2_limits(s.server.config)), timer(s.server.io) {
  began_us = idle_since_us = Server::now_us();
}

HttpServer::Http2Connection::~Http2Connection() {
  if (server.closing) return;  // all requests have their answers
  for (const auto& [id, stream] : streams) stream->withdraw();
}

void HttpServer::Http2Connection::begin(std::string_view bytes) {
  start_timer(std::max<std::int64_t>(server.config.timeout_us / 4, 1'000));
  receive(bytes);
  read();
}

// Both directions are used at once. The time to read is bounded by deadlines, not by the socket.
void HttpServer::Http2Connection::read() {
  if (reading || !session.stream.is_open()) return;
  if (session.writing && protocol.queued() > queued_frames_max) return;  // until some are written
  reading = true;
  in.resize(read_at_once);
  session.stream.expires_never();  // of a write that has begun, its own time still holds
  session.stream.read_some(asio::buffer(in),
                           [self = session.shared_from_this()](beast::error_code error, std::size_t bytes) {
                             Http2Connection& http2 = *self->http2;
                             http2.reading = false;
                             if (error) return self->stream.close();
                             if (!http2.ending) http2.receive(std::string_view(http2.in).substr(0, bytes));
                             http2.read();
                           });
}

void HttpServer::Http2Connection::receive(std::string_view bytes) {
  protocol.receive(bytes, Server::now_us());
  handle_events();
  pump();
}

void HttpServer::Http2Connection::handle_events() {
  if (std::exchange(handling, true)) return;
  for (auto events = protocol.take_events(); !events.empty(); events = protocol.take_events()) {
    const std::set<Http2StreamId> resets = closed_streams(events);
    for (Http2Event& event : events) switch (event.kind) {
        case Http2Event::Kind::head:
          // A request that is reset by the bytes that bring it is not begun.
          if (!resets.contains(event.stream)) head(event);
          break;
        case Http2Event::Kind::data:
          data(event);
          break;
        case Http2Event::Kind::end:
          request_ended(event.stream);
          break;
        case Http2Event::Kind::closed:
          closed(event);
      }
  }
  handling = false;
  if (protocol.is_flooded() && !std::exchange(reported, true))
    server.metrics.record(Metric::http_refused, 1, "http2_flood");
  update_state();
}

// Sends until everything is sent, one piece at a time.
void HttpServer::Http2Connection::pump() {
  if (handling || session.writing || ending || !session.stream.is_open()) return;
  out.clear();
  protocol.take_output(out, write_at_once);
  handle_events();
  fits();
  if (out.empty()) {
    if (protocol.is_over() || (going && streams.empty())) end();
    return;
  }
  session.writing = true;
  session.stream.expires_after(microseconds(server.config.timeout_us));
  session.stream.write(asio::buffer(out), {},
                       [self = session.shared_from_this()](beast::error_code error, std::size_t) {
                         Http2Connection& http2 = *self->http2;
                         self->writing = false;
                         if (error) return self->stream.close();
                         for (auto at = http2.streams.begin(); at != http2.streams.end();) {
                           Stream& stream = *(at++)->second;
                           if (stream.bulk && !stream.noted && stream.at == Stream::At::writing &&
                               http2.protocol.unsent_bytes(stream.id) == 0)
                             http2.next_lines(stream);
                         }
                         http2.pump();
                         http2.read();
                       });
}

// The client may still send; closing at once could lose it the last answers.
void HttpServer::Http2Connection::end() {
  if (server.closing) return session.stream.close();
  ending = true;
  session.stream.send_no_more();
  start_timer(last_bytes_us);
}

void HttpServer::Http2Connection::stop() {
  go_away();
  for (const auto& [id, stream] : streams) {
    if (stream->pacing) stream->pacing->cancel();
    if (stream->at == Stream::At::reading) protocol.reset(id);
  }
  pump();
}

void HttpServer::Http2Connection::go_away() {
  if (!std::exchange(going, true)) protocol.refuse_further();
}

void HttpServer::Http2Connection::start_timer(std::int64_t us) {
  timer.expires_after(microseconds(us));
  timer.async_wait([open = session.weak_from_this(), us](beast::error_code error) {
    const auto self = open.lock();
    if (error || !self || !self->stream.is_open()) return;
    if (self->http2->ending) return self->stream.close();
    self->http2->check_deadlines();
    if (!self->http2->ending) self->http2->start_timer(us);
  });
}

void HttpServer::Http2Connection::check_deadlines() {
  const std::int64_t now_us = Server::now_us(), timeout_us = server.config.timeout_us;
  for (const auto& [id, stream] : streams)
    if (stream->deadline_us > 0 && now_us >= stream->deadline_us) protocol.reset(id);
  const bool idle = streams.empty() && now_us - idle_since_us >= timeout_us;
  if (idle || now_us - began_us >= ages * timeout_us) go_away();
  pump();
}

void HttpServer::Http2Connection::set_deadline(Stream& stream) {
  stream.deadline_us = Server::now_us() + server.config.timeout_us;
}

void HttpServer::Http2Connection::update_state() {
  const bool waits = streams.empty() || std::ranges::any_of(streams, [](const auto& stream) {
                       return stream.second->at != Stream::At::serving;
                     });
  if (waits == std::exchange(is_waiting, waits)) return;
  waits ? session.places.waits(session.connection_id) : session.places.mark_serving(session.connection_id);
}

std::size_t HttpServer::Http2Connection::held_bytes() const {
  std::size_t bytes = in.capacity() + out.capacity() + protocol.held_bytes();
  for (const auto& [id, stream] : streams) {
    if (stream->body) bytes += stream->body->held_bytes();
    if (stream->rpc) bytes += stream->beside_bytes > 0 ? stream->beside_bytes : stream->rpc->held_bytes();
    if (stream->bulk) bytes += stream->bulk->held_bytes();
  }
  return bytes;
}

bool HttpServer::Http2Connection::fits(std::size_t more) {
  session.set_bytes(held_bytes() + more);
  while (const auto connection_to_close = session.places.connection_to_close_for_bytes()) {
    if (*connection_to_close == session.connection_id) return false;
    server.close_connection(*connection_to_close);
  }
  return session.places.has_free_bytes(0);
}

// ---- requests ----

HttpServer::Http2Connection::Stream* HttpServer::Http2Connection::find(Http2StreamId id) {
  const auto found = streams.find(id);
  return found == streams.end() ? nullptr : found->second.get();
}

std::optional<Refusal> HttpServer::Http2Connection::begin_stream(Stream& stream, Http2Event& event) {
  const HttpServerConfig& config = server.config;
  std::optional<Refusal> fault = read_http2_head(event.fields, stream.asked);
  if (event.fault != Http2Event::Fault::none) fault = refusal_of(event.fault, config.header_bytes_max);
  stream.begin_request();
  if (config.rpc) stream.rpc = config.rpc->find_call(event.fields);
  if (stream.rpc) stream.seen.route = stream.rpc->route();
  if (fault) return fault;
  if (session.rpc_only && !stream.rpc) return only_rpc();
  const bool for_health = stream.rpc ? !stream.rpc->needs_key() : stream.asks_for_health();
  if (&session.places == &server.health_reserve && !for_health) return full(config);
  const bool of_load_balancer =
      stream.rpc ? !stream.rpc->needs_key() : asks_health(stream.asked.method, stream.asked.target);
  const ServedHosts& served = session.rpc_only ? config.rpc_hosts : config.hosts;
  if (auto refusal = stream.reject_if_of_other_site(served, of_load_balancer)) return refusal;
  if (!stream.rpc || stream.rpc->needs_key())
    if (auto refusal = stream.identify_caller()) return refusal;
  if (!fits()) return too_much_kept(config);
  return std::nullopt;
}

void HttpServer::Http2Connection::head(Http2Event& event) {
  const auto made = std::make_shared<Stream>(session, event.stream);
  Stream& stream = *(streams[event.stream] = made);
  set_deadline(stream);
  update_state();
  if (auto refusal = begin_stream(stream, event)) return refuse(stream, *refusal);
  begin_body(stream, event);
  // A client that waits for it gets a refusal instead where the head is enough for one.
  if (stream.asked.waits && stream.at == Stream::At::reading) protocol.ask_for_body(stream.id);
}

void HttpServer::Http2Connection::begin_body(Stream& stream, const Http2Event& event) {
  if (stream.rpc) return act(stream, stream.rpc->begin());
  if (const auto by_lines = bulk_kind(stream.asked.method, stream.asked.target, stream.asked.content_type))
    return begin_bulk(stream, *by_lines);
  const BodyLimits limits{.body_bytes_max = server.config.body_bytes_max};
  const auto length = content_length(event.fields);
  stream.body.emplace(length ? RequestBody(*length, limits) : RequestBody::until_end(limits));
  if (stream.body->fault()) refuse(stream, Refusal(*stream.body->fault()));
}

// Bytes are consumed as they are kept: the body's limit and the memory of all bound them.
void HttpServer::Http2Connection::data(const Http2Event& event) {
  Stream* const stream = find(event.stream);
  if (stream && stream->bulk && !stream->noted) {
    stream->body->take(event.data);
    stream->unconsumed += event.data.size();
    if (stream->at != Stream::At::reading) return;
    if (fits()) return next_lines(*stream);
    stream->bulk->refusal = too_much_kept(server.config);
    return write_results(*stream);
  }
  protocol.consume(event.stream, event.data.size());
  if (!stream || stream->at != Stream::At::reading) return;
  stream->seen.bytes_in += event.data.size();
  if (stream->rpc) {
    RpcActions actions = stream->rpc->receive(event.data, protocol.unsent_bytes(event.stream));
    if (!actions.trailers && !fits(actions.bytes.size()))
      return refuse(*stream, too_much_kept(server.config));
    return act(*stream, std::move(actions));
  }
  stream->body->take(event.data);
  if (stream->body->fault()) return refuse(*stream, Refusal(*stream->body->fault()));
  if (!fits()) refuse(*stream, too_much_kept(server.config));
}

void HttpServer::Http2Connection::request_ended(Http2StreamId id) {
  Stream* const stream = find(id);
  if (!stream) return;
  if (stream->bulk && !stream->noted) {
    stream->body->end();
    if (stream->at == Stream::At::reading) next_lines(*stream);
    return;
  }
  if (stream->at != Stream::At::reading) return;
  if (stream->rpc && !server.reads_at_once(stream->rpc->held_bytes())) return read_call(*stream);
  if (stream->rpc) return act(*stream, stream->rpc->end(stream->elapsed_us()));
  stream->body->end();
  if (stream->body->fault()) return refuse(*stream, Refusal(*stream->body->fault()));
  handle(*stream);
}

// If the actors have its request, the Stream lives on until they have answered.
void HttpServer::Http2Connection::closed(const Http2Event& event) {
  const auto found = streams.find(event.stream);
  if (found == streams.end()) return;
  found->second->withdraw();
  streams.erase(found);
  if (event.answered) session.places.waits(session.connection_id), is_waiting = true;
  if (streams.empty()) idle_since_us = Server::now_us();
}

bool HttpServer::Http2Connection::enter_flight(Stream& stream) {
  if (flights >= server.config.streams_max || !server.in_flight.enter(stream.from)) return false;
  stream.in_flight = true;
  begin_flight(stream);
  return true;
}

void HttpServer::Http2Connection::begin_flight(Stream& stream) {
  ++flights;
  stream.at = Stream::At::serving;
  stream.deadline_us = 0;  // the server's own timer bounds the wait
}

void HttpServer::Http2Connection::handle(Stream& stream) {
  server.metrics.record(Metric::http_requests, 1);
  if (auto refusal = stream.begin_count()) return refuse(stream, *refusal);
  if (const TenantPauses::StoredRefusal* reported = stream.pause_refusal())
    return delay(stream, Answer::of(*reported));
  stream.seen.bytes_in = stream.body->text().size();
  if (!enter_flight(stream)) {
    if (!stream.asks_for_health()) return refuse(stream, too_many_in_flight(server.config));
    begin_flight(stream);
  }
  if (server.reads_at_once(stream.seen.bytes_in)) return ask(stream, stream.route_body(stream.body->text()));
  update_state();
  session.set_bytes(held_bytes());
  const auto routed = std::make_shared<RoutedBody>();
  const auto kept = stream.shared_from_this();
  if (!server.read_beside([kept, routed] { *routed = kept->route_body(kept->body->text()); },
                          [kept, routed] { kept->is_read(std::move(*routed)); }))
    stream.actors_answered(Answer::of(too_much_kept(server.config)));
}

// Asks the actors unless the client has gone meanwhile.
void HttpServer::Http2Connection::Stream::is_read(RoutedBody routed) {
  const auto open = session.lock();
  if (server.closing) return actors_answered(Answer::of(stopping(false)));
  if (open && !gone) return open->http2->ask(*this, std::move(routed));
  finish_flight();
  abandon();
}

void HttpServer::Http2Connection::Stream::abandon() {
  server.metrics.record(Metric::http_abandoned, 1);
  note_gone({});
}

void HttpServer::Http2Connection::ask(Stream& stream, RoutedBody routed) {
  stream.body.reset();
  release_head(stream);
  update_state();
  const auto kept = stream.shared_from_this();
  const RequestId request =
      kept->dispatch(std::move(routed), [kept](Answer answer) { kept->actors_answered(std::move(answer)); });
  if (request != 0) kept->requests.push_back(request);
}

void HttpServer::Http2Connection::delay(Stream& stream, Answer answer) {
  const std::string& tenant = stream.asked.tenant;
  server.metrics.record(Metric::tenant_refused, 1, tenant);
  const std::int64_t us = server.pauses.refusal_delay_us(tenant, Server::now_us());
  stream.body.reset();
  if (us == 0) return answered(stream, std::move(answer));
  stream.at = Stream::At::delayed;
  stream.deadline_us = 0;
  update_state();
  stream.pacing = std::make_unique<asio::steady_timer>(server.io, microseconds(us));
  stream.pacing->async_wait(
      [kept = stream.shared_from_this(), answer = std::move(answer)](beast::error_code) mutable {
        const auto open = kept->session.lock();
        if (open && !kept->gone) open->http2->answered(*kept, std::move(answer));
      });
}

// Forgets the fields that are not needed once the request is routed.
void HttpServer::Http2Connection::release_head(Stream& stream) {
  RequestHead::HeadFields& asked = stream.asked;
  asked.browser = {};
  for (std::string* field : {&asked.authorization, &asked.target, &asked.content_type, &asked.if_match})
    *field = std::string();
  const std::size_t kept =
      asked.method.size() + asked.tenant.size() + asked.if_none_match.size() + asked.accept.size();
  if (kept <= forgotten_bytes_max) protocol.release_head(stream.id);
}

// ---- calls of gRPC ----

void HttpServer::Http2Connection::act(Stream& stream, RpcActions actions) {
  if (actions.call) return call_router(stream, std::move(*actions.call));
  if (actions.question) {
    server.metrics.record(Metric::http_requests, 1);
    if (auto refusal = stream.begin_count()) return refuse(stream, *refusal);
    return ask_actors(stream, std::move(*actions.question));
  }
  if (actions.asks_readiness) return ask_readiness(stream);
  const Http2Fields& fields = server.config.rpc->answer_fields();
  if (!actions.bytes.empty()) {
    if (!std::exchange(stream.has_begun, true)) protocol.begin_answer(stream.id, 200, fields);
    protocol.write(stream.id, actions.bytes);
    set_deadline(stream);
  }
  if (!actions.trailers) return pump();
  const Answer ended = actions.refusal ? Answer::of(*actions.refusal) : Answer{};
  if (actions.refusal) server.metrics.record(Metric::http_refused, 1, ended.code);
  if (!std::exchange(stream.noted, true)) stream.note(ended, actions.bytes.size());
  stream.end_count();
  stream.at = Stream::At::writing;
  set_deadline(stream);
  if (stream.has_begun) {
    protocol.end_answer(stream.id, std::move(*actions.trailers));
  } else {
    Http2Fields all = fields;
    all.insert(all.end(), actions.trailers->begin(), actions.trailers->end());
    protocol.answer(stream.id, 200, all, "");
  }
  pump();
}

void HttpServer::Http2Connection::call_router(Stream& stream, ServerCall call) {
  server.metrics.record(Metric::http_requests, 1);
  if (auto refusal = stream.begin_count()) return refuse(stream, *refusal);
  if (const auto* reported = server.pauses.find(stream.asked.tenant, Server::now_us()))
    return delay(stream, Answer::of(*reported));
  ask_actors(stream, std::move(call));
}

template <class Question>
void HttpServer::Http2Connection::ask_actors(Stream& stream, Question question) {
  if (!enter_flight(stream)) return refuse(stream, too_many_in_flight(server.config));
  release_head(stream);
  update_state();
  const auto kept = stream.shared_from_this();
  const RequestId request =
      kept->ask(std::move(question), [kept](Answer answer) { kept->actors_answered(std::move(answer)); });
  if (request != 0) kept->requests.push_back(request);
}

// Reads a large message on another thread. Until then nothing else uses the call.
void HttpServer::Http2Connection::read_call(Stream& stream) {
  stream.at = Stream::At::serving;
  stream.deadline_us = 0;
  stream.beside_bytes = stream.rpc->held_bytes();
  update_state();
  const auto actions = std::make_shared<RpcActions>();
  const auto kept = stream.shared_from_this();
  const auto then = [kept, actions] {
    kept->beside_bytes = 0;
    const auto open = kept->session.lock();
    if (!open || kept->gone) return kept->abandon();
    if (kept->server.closing) return open->http2->refuse(*kept, stopping(false));
    open->http2->act(*kept, std::move(*actions));
  };
  const std::int64_t elapsed_us = stream.elapsed_us();
  if (server.read_beside([kept, actions, elapsed_us] { *actions = kept->rpc->end(elapsed_us); }, then))
    return;
  stream.beside_bytes = 0;
  refuse(stream, too_much_kept(server.config));
}

void HttpServer::Http2Connection::ask_readiness(Stream& stream) {
  server.metrics.record(Metric::http_requests, 1);
  if (!enter_flight(stream)) begin_flight(stream);
  update_state();
  auto then = [kept = stream.shared_from_this()](Answer answer) {
    if (const auto open = kept->finish_flight())
      return open->http2->act(*kept, kept->rpc->is_ready(answer.status == 200));
    kept->note_gone(std::move(answer));
  };
  server.answer_question(ServerQuestion::ready, "", std::nullopt, std::move(then));
}

// ---- answers ----

void HttpServer::Http2Connection::answered(Stream& stream, Answer answer) {
  if (!stream.rpc) return this->answer(stream, stream.unless_known(std::move(answer)));
  stream.at = Stream::At::writing;
  update_state();
  if (!fits(answer.body.size())) return refuse(stream, too_much_kept(server.config));
  if (answer.status >= 400) server.metrics.record(Metric::http_refused, 1, answer.code);
  stream.noted = true;
  stream.note(answer, answer.body.size());
  const ServerReply reply{answer.refused, std::move(answer.body), answer.code, answer.retry_after_s};
  act(stream, stream.rpc->replied(reply, stream.elapsed_us()));
}

void HttpServer::Http2Connection::refuse(Stream& stream, const Refusal& refusal) {
  if (stream.rpc) return act(stream, stream.rpc->refuse(refusal));
  answer(stream, Answer::of(refusal));
}

void HttpServer::Http2Connection::answer(Stream& stream, Answer answer) {
  stream.end_count();
  stream.body.reset();
  stream.at = Stream::At::writing;
  set_deadline(stream);
  update_state();
  if (!fits(answer.body.size())) answer = Answer::of(too_much_kept(server.config));
  if (answer.status >= 400) server.metrics.record(Metric::http_refused, 1, answer.code);
  stream.noted = true;
  stream.note(answer, answer.body.size());
  Http2Fields fields{{"server", "troupe"}};
  for (auto& [name, value] : stream.fields_of(answer)) fields.emplace_back(lower(name), value);
  if (answer.status != 304) fields.emplace_back("content-length", std::to_string(answer.body.size()));
  protocol.answer(stream.id, answer.status, fields,
                  stream.asked.method == "HEAD" ? std::string() : std::move(answer.body));
  pump();
}

// ---- the session's part ----

void HttpServer::Session::begin_http2(std::string_view bytes) {
  head.reset();
  buffer.shrink_to_fit();
  http2 = std::make_unique<Http2Connection>(*this);
  http2->begin(bytes);
}

void HttpServer::Session::stop_http2() {
  if (http2) http2->stop();
}

}  // namespace troupe::server
