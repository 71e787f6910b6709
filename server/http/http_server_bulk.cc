// Serves a bulk request, whose body has one request per line: some lines are with the actors at a
// time, and each gets a result line. Such a request may be long while memory stays bounded.
#include "server/http/http_server_bulk.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

#include "server/formats/bulk_results.h"
#include "server/formats/http_refusal.h"

namespace troupe::server {

using std::chrono::microseconds;

namespace {

constexpr std::size_t bulk_read_bytes = 16 << 10;  // read at a time

constexpr std::size_t framing_bytes = 32;  // of a chunk, and of the body's end

}  // namespace

std::size_t HttpServer::Exchange::Bulk::held_bytes() const {
  std::size_t bytes = out.capacity() + read_bytes;
  for (const std::string& line : later) bytes += line.capacity();
  for (const LineResult& result : results) bytes += result.text.capacity() + result.expected_bytes;
  return bytes;
}

// Each result is freed once it is copied.
void HttpServer::Exchange::Bulk::write_part(std::string head, const std::string& end, bool chunked,
                                            bool last) {
  std::size_t size = end.size();
  for (const LineResult& result : results) size += result.text.size();
  char chunk[24] = "";
  if (chunked) std::snprintf(chunk, sizeof chunk, "%zx\r\n", size);
  out = std::move(head);
  out.reserve(out.size() + size + framing_bytes);
  out += chunk;
  for (LineResult& result : results) out += std::exchange(result.text, std::string());
  results.clear();
  out += end;
  if (chunked) out += last ? "\r\n0\r\n\r\n" : "\r\n";
  bytes += out.size();
}

void HttpServer::Session::begin_bulk() {
  server.metrics.record(Metric::http_requests, 1);
  release(out_head), release(out_body);
  next_lines();
}

// A request of many lines may outlive its key. Refuses the lines that were not sent yet if the keys
// changed and the key was revoked, or may no longer do this.
std::optional<Refusal> HttpServer::Exchange::reject_if_key_is_gone(Bulk& bulk) {
  if (bulk.keys == server.keys) return std::nullopt;
  bulk.keys = server.keys;
  if (const auto refusal = identify_caller())
    return Refusal{refusal->kind, "key_revoked", "the key of this request was revoked, or has another tenant",
                   "authorization", "a valid key, and a request of the lines from this one on"};
  return reject_if_bulk_not_allowed(bulk.kind, {asked.method, asked.target, "", asked.tenant},
                                    limits_of(nullptr));
}

// Sends the available lines to the actors, up to the limits.
void HttpServer::Session::next_lines() {
  const std::string_view bytes(static_cast<const char*>(buffer.data().data()), buffer.size());
  buffer.consume(body->take(bytes));
  bulk->results.clear();
  release(bulk->out);
  places.mark_serving(connection_id);
  stream.expires_never();
  bulk->refusal = reject_if_key_is_gone(*bulk);
  if (bulk->refusal) return write_results();
  const auto batch = std::make_shared<Batch>();
  set_bytes(buffer.capacity() + body->held_bytes() + bulk->held_bytes());
  batch->lines = take_lines(*bulk, *body, places);
  if (const auto us = refuse_lines(*bulk, *batch)) return ask_lines_later(batch, *us);
  bulk->read_bytes = batch->bytes();
  if (server.reads_lines_at_once(bulk->read_bytes)) {
    route_lines(*bulk, *batch);
    return ask_lines(*batch);
  }
  book_bulk();
  server.read_lines_beside([self = shared_from_this(), batch] { self->route_lines(*self->bulk, *batch); },
                           [self = shared_from_this(), batch] { self->ask_lines(*batch); });
}

// Takes at least one line, so that the request goes on: if its result does not fit, it is refused.
std::vector<std::string> HttpServer::Exchange::take_lines(Bulk& bulk, RequestBody& body,
                                                          const ConnectionLimiter& among) const {
  std::vector<std::string> lines;
  for (std::size_t bytes = 0; lines.size() < Bulk::lines_at_once && bytes < Bulk::bytes_at_once;) {
    const bool fits = among.has_free_bytes((lines.size() + 1) * bulk.result_bytes);
    if (server.closing || (!lines.empty() && !fits)) break;
    std::string line;
    if (bulk.later.empty()) {
      line = body.next_line().value_or("");
    } else {
      line = std::move(bulk.later.front());
      bulk.later.pop_front();
    }
    if (line.empty()) break;
    bytes += line.size();
    lines.push_back(std::move(line));
  }
  return lines;
}

// Stops before a line that changes what a line before it changes: it is routed with the next ones.
void HttpServer::Exchange::route_lines(const Bulk& bulk, Batch& batch) const {
  std::set<std::string> subjects;
  for (const std::string& line : batch.lines) {
    RoutedBody routed = route_line(bulk, line);
    if (const auto* message = std::get_if<Message>(&routed.route)) {
      const std::string subject = subject_of(*message);
      if (!subject.empty() && !subjects.insert(subject).second) return;
    }
    batch.routed.push_back(std::move(routed));
  }
}

std::optional<std::int64_t> HttpServer::Exchange::refuse_lines(const Bulk& bulk, Batch& batch) {
  if (bulk.kind != BulkKind::rankings || batch.lines.empty()) return std::nullopt;
  const TenantPauses::StoredRefusal* const reported = server.pauses.find(asked.tenant, server.now_us());
  if (!reported) return std::nullopt;
  batch.refused = Answer::of(*reported);
  std::int64_t us = 0;
  for (std::size_t i = 0; i < batch.lines.size(); ++i) {
    server.metrics.record(Metric::tenant_refused, 1, asked.tenant);
    us = server.pauses.line_delay_us(asked.tenant, server.now_us());
  }
  batch.refused_lines = batch.lines.size();
  batch.lines.clear();
  return us;
}

RoutedBody HttpServer::Exchange::route_line(const Bulk& bulk, const std::string& line) const {
  const HttpServerConfig& config = server.config;
  HttpRequest request{asked.method, asked.target, line, asked.tenant};
  auto chosen = choose_model(request, config.models);
  if (auto* refusal = std::get_if<Refusal>(&chosen)) return {std::move(*refusal)};
  const ChosenModel& of = std::get<ChosenModel>(chosen);
  const ServerModel* const model = of.model;
  if (of.in_body) request.body = of.body;
  return {server::route_line(bulk.kind, request, limits_of(model), model ? model->text : config.text), model};
}

void HttpServer::Exchange::Bulk::keep_lines(Batch& batch) {
  const auto left = batch.lines.begin() + static_cast<std::ptrdiff_t>(batch.routed.size());
  later.insert(later.begin(), std::make_move_iterator(left), std::make_move_iterator(batch.lines.end()));
  batch.lines.clear();
}

// The connection counts as waiting: it may be closed for another meanwhile.
void HttpServer::Session::ask_lines_later(std::shared_ptr<Batch> batch, std::int64_t us) {
  if (us == 0) return ask_lines(*batch);
  places.waits(connection_id);
  awaits_refusal = true;
  refusal_timer.expires_after(microseconds(us));
  refusal_timer.async_wait([self = shared_from_this(), batch = std::move(batch)](beast::error_code) {
    self->awaits_refusal = false;
    if (self->stream.is_open()) self->ask_lines(*batch);
  });
}

void HttpServer::Session::ask_lines(Batch& batch) {
  bulk->read_bytes = 0;
  bulk->asks = true;  // lines that are refused at once are answered in between
  if (batch.refused) {
    for (std::size_t i = 0; i < batch.refused_lines; ++i)
      line_is_answered(bulk->begin_line(), *batch.refused, "");
  }
  if (server.closing) batch.routed.clear();
  bulk->keep_lines(batch);
  for (RoutedBody& routed : batch.routed) ask_line(std::move(routed));
  bulk->asks = false;
  if (bulk->open == 0) write_results();
}

void HttpServer::Session::ask_line(RoutedBody routed) {
  auto* message = std::get_if<Message>(&routed.route);
  const std::size_t index = bulk->begin_line();
  book_bulk();
  if (const auto* refusal = std::get_if<Refusal>(&routed.route))
    return line_is_answered(index, Answer::of(*refusal), "");
  auto counts = count();
  if (const auto* refusal = std::get_if<Refusal>(&counts))
    return line_is_answered(index, Answer::of(*refusal), "");
  set_client_request_id(*message, asked.request_id);
  const RequestId id =
      server.ask_router(std::move(*message), seen.trace, asked.tenant, routed.model,
                        [self = shared_from_this(), index, row = std::get<std::string>(std::move(counts))](
                            const Answer& answer) { self->line_is_answered(index, answer, row); });
  server.watch(id, connection_id);
}

void HttpServer::Session::line_is_answered(std::size_t index, const Answer& answer, const std::string& row) {
  if (!row.empty()) server.rates.end(row);
  if (!bulk) return;
  const std::uint64_t line = bulk->lines - bulk->results.size() + index + 1;
  --bulk->open;
  if (keep_result(index, bulk_result(line, answer.status, answer.body))) {
    bulk->failed += answer.status >= 400;
  } else {
    const Answer refusal = Answer::of(too_much_kept(server.config));
    bulk->results[index] = {bulk_result(line, refusal.status, refusal.body)};
    book_bulk();
    ++bulk->failed;
  }
  if (bulk->open == 0 && !bulk->asks) write_results();
}

// The result of a write is small, and is kept in any case: a refusal would say that nothing was stored.
bool HttpServer::Session::keep_result(std::size_t index, std::string result) {
  bulk->result_bytes = std::max(bulk->result_bytes, result.capacity());
  bulk->results[index] = {std::move(result)};
  if (book_bulk() || bulk->kind != BulkKind::rankings) return true;
  bulk->results[index] = {};
  return false;
}

// Books the bytes that are kept for the request. While those of all connections are too many, closes the
// connections that wait for their clients and keep more than this one. Returns false if it is still too many.
bool HttpServer::Session::book_bulk() {
  set_bytes(buffer.capacity() + body->held_bytes() + bulk->held_bytes());
  while (!places.has_free_bytes(0)) {
    const auto goes = places.connection_to_close_for_bytes();
    if (!goes || places.keeps_more(connection_id, *goes)) return false;
    server.close_connection(*goes);
  }
  return true;
}

void HttpServer::Session::read_lines() {
  places.waits(connection_id);
  set_bytes(buffer.capacity() + body->held_bytes() + bulk->held_bytes());
  while (const auto goes = places.connection_to_close_for_bytes()) {
    if (*goes == connection_id) return stream.close();
    server.close_connection(*goes);
  }
  stream.expires_after(microseconds(server.config.timeout_us));
  stream.read_some(buffer.prepare(beast::read_size(buffer, bulk_read_bytes)),
                   [self = shared_from_this()](beast::error_code error, std::size_t bytes) {
                     if (error) return self->stream.close();
                     self->buffer.commit(bytes);
                     self->next_lines();
                   });
}

// Writes the results, and the end after the last ones, after a broken body, or when the key is gone.
// In the last two cases the connection closes, because the start of the next request is unknown.
void HttpServer::Session::write_results() {
  const bool waits = bulk->waits(*body);
  const auto& refusal = bulk->refusal ? bulk->refusal : body->fault();
  const bool broken = refusal.has_value();
  const bool last = broken || server.closing || (body->done() && !waits);
  std::string end;
  if (broken) {
    server.metrics.record(Metric::http_refused, 1, refusal->code);
    end += bulk_result(bulk->lines + 1, http_status(refusal->kind), Answer::of(*refusal).body);
    ++bulk->failed;
  }
  if (last) end += bulk_end(bulk->lines, bulk->failed);
  if (end.empty() && bulk->results.empty()) return read_lines();
  const bool chunked = asked.version == 11;
  const bool stays = !broken && !server.closing && asked.keep_alive && chunked;
  std::string head;
  if (!std::exchange(bulk->begun, true))
    head = std::string("HTTP/1.1 200 OK\r\nServer: troupe\r\nContent-Type: application/x-ndjson\r\n") +
           "x-request-id: " + seen.request_id + "\r\ntraceparent: " + write_traceparent(seen.trace) + "\r\n" +
           (chunked ? "Transfer-Encoding: chunked\r\n" : "Connection: close\r\n") + "\r\n";
  bulk->write_part(std::move(head), end, chunked, last);
  if (last) note({}, bulk->bytes);
  places.waits(connection_id);
  set_bytes(buffer.capacity() + body->held_bytes() + bulk->held_bytes());
  stream.expires_after(microseconds(server.config.timeout_us));
  writing = true;
  stream.write(asio::buffer(bulk->out), {},
               [self = shared_from_this(), last, stays](beast::error_code error, std::size_t) {
                 self->writing = false;
                 if (error) return self->stream.close();
                 if (!last) return self->next_lines();
                 self->bulk.reset();
                 if (!stays || self->server.closing) return self->close();
                 self->read();
               });
}

}  // namespace troupe::server
