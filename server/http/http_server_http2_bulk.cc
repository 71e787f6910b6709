// Serves a request of many lines over HTTP/2: as over HTTP/1.1, some lines are with the actors at a
// time, and the client's window stays closed while their results are not sent.
#include <algorithm>
#include <chrono>
#include <utility>

#include "server/formats/bulk_results.h"
#include "server/formats/http_refusal.h"
#include "server/http/http_server_http2.h"

namespace troupe::server {

using std::chrono::microseconds;

namespace {

Refusal no_capacity(const char* what) {
  return {RefusalKind::unavailable, "overloaded", what, "line", "a smaller number of requests at once"};
}

}  // namespace

void HttpServer::Http2Connection::begin_bulk(Stream& stream, BulkKind kind) {
  const HttpRequest request{stream.asked.method, stream.asked.target, "", stream.asked.tenant};
  if (auto fault = reject_if_bulk_not_allowed(kind, request, stream.limits_of(nullptr)))
    return refuse(stream, *fault);
  server.metrics.record(Metric::http_requests, 1);
  stream.bulk = std::make_unique<Exchange::Bulk>();
  stream.bulk->kind = kind;
  stream.bulk->keys = server.keys;
  stream.body.emplace(
      RequestBody::until_end({.body_bytes_max = server.config.body_bytes_max, .by_lines = true}));
}

// Takes the available lines, up to the limits. The lines are checked against the keys first, since the
// request may outlive its own.
void HttpServer::Http2Connection::next_lines(Stream& stream) {
  Exchange::Bulk& bulk = *stream.bulk;
  bulk.results.clear();
  stream.requests.clear();
  stream.at = Stream::At::serving;
  stream.deadline_us = 0;
  bulk.refusal = stream.reject_if_key_is_gone(bulk);
  if (bulk.refusal) return write_results(stream);
  const auto batch = std::make_shared<Exchange::Batch>();
  session.set_bytes(held_bytes());
  batch->lines = stream.take_lines(bulk, *stream.body, session.places);
  if (const auto us = stream.refuse_lines(bulk, *batch)) return ask_lines_later(stream, batch, *us);
  bulk.read_bytes = batch->bytes();
  if (server.reads_lines_at_once(bulk.read_bytes)) {
    stream.route_lines(bulk, *batch);
    return ask_lines(stream, *batch);
  }
  // Until they are read, the connection may close for another that needs memory.
  stream.at = Stream::At::queued;
  update_state();
  book_bulk();
  stream.queued = server.read_lines_beside(
      [kept = stream.shared_from_this(), batch] { kept->route_lines(*kept->bulk, *batch); },
      [kept = stream.shared_from_this(), batch] {
        kept->queued.reset();
        resume_lines(*kept, *batch);
      });
}

// Lets the client send as many bytes again as were taken, once their lines are asked: until then it would
// send what there may be no memory for. While a window of lines is left, it need not; but a line that is
// longer than the window has to come whole.
void HttpServer::Http2Connection::open_window(Stream& stream, bool needs_bytes) {
  if (!needs_bytes && stream.body->text().size() > http2_window_bytes(server.config)) return;
  protocol.consume(stream.id, std::exchange(stream.unconsumed, 0));
}

void HttpServer::Http2Connection::ask_lines_later(Stream& stream, std::shared_ptr<Exchange::Batch> batch,
                                                  std::int64_t us) {
  if (us == 0) return ask_lines(stream, *batch);
  stream.at = Stream::At::delayed;
  update_state();
  stream.pacing = std::make_unique<asio::steady_timer>(server.io, microseconds(us));
  stream.pacing->async_wait([kept = stream.shared_from_this(), batch = std::move(batch)](beast::error_code) {
    resume_lines(*kept, *batch);
  });
}

void HttpServer::Http2Connection::resume_lines(Stream& stream, Exchange::Batch& batch) {
  const auto open = stream.session.lock();
  if (!open || stream.gone) return;
  stream.at = Stream::At::serving;
  open->http2->update_state();
  open->http2->ask_lines(stream, batch);
  open->http2->pump();
}

void HttpServer::Http2Connection::ask_lines(Stream& stream, Exchange::Batch& batch) {
  Exchange::Bulk& bulk = *stream.bulk;
  open_window(stream, batch.lines.empty() && batch.refused_lines == 0);
  bulk.read_bytes = 0;
  bulk.asks = true;  // lines that are refused at once are answered in between
  if (batch.refused) {
    for (std::size_t i = 0; i < batch.refused_lines; ++i)
      line_is_answered(stream, bulk.begin_line(), *batch.refused);
  }
  if (server.closing) batch.routed.clear();
  bulk.keep_lines(batch);
  for (RoutedBody& routed : batch.routed) ask_line(stream, std::move(routed));
  bulk.asks = false;
  if (bulk.open == 0) write_results(stream);
}

void HttpServer::Http2Connection::ask_line(Stream& stream, RoutedBody routed) {
  Exchange::Bulk& bulk = *stream.bulk;
  const std::size_t index = bulk.begin_line();
  book_bulk();
  if (const auto* refusal = std::get_if<Refusal>(&routed.route))
    return line_is_answered(stream, index, Answer::of(*refusal));
  auto counts = stream.count();
  if (const auto* refusal = std::get_if<Refusal>(&counts))
    return line_is_answered(stream, index, Answer::of(*refusal));
  const std::string row = std::get<std::string>(std::move(counts));
  if (!server.in_flight.enter(stream.from)) {
    server.rates.end(row);
    return line_is_answered(stream, index, Answer::of(no_capacity("too many requests are being served")));
  }
  auto& message = std::get<Message>(routed.route);
  set_client_request_id(message, stream.asked.request_id);
  const auto request =
      server.ask_router(std::move(message), stream.seen.trace, stream.asked.tenant, routed.model,
                        [kept = stream.shared_from_this(), index, row](const Answer& answer) {
                          kept->end_flight();
                          kept->server.rates.end(row);
                          const auto open = kept->session.lock();
                          if (!open || kept->gone) return;
                          open->http2->line_is_answered(*kept, index, answer);
                          open->http2->pump();
                        });
  stream.requests.push_back(request);
}

void HttpServer::Http2Connection::line_is_answered(Stream& stream, std::size_t index, const Answer& answer) {
  Exchange::Bulk& bulk = *stream.bulk;
  const std::uint64_t line = bulk.lines - bulk.results.size() + index + 1;
  --bulk.open;
  if (keep_result(bulk, index, bulk_result(line, answer.status, answer.body))) {
    bulk.failed += answer.status >= 400;
  } else {
    const Answer refusal = Answer::of(too_much_kept(server.config));
    bulk.results[index] = {bulk_result(line, refusal.status, refusal.body)};
    book_bulk();
    ++bulk.failed;
  }
  if (bulk.open == 0 && !bulk.asks) write_results(stream);
}

// The result of a write is small, and is kept in any case: a refusal would say that nothing was stored.
bool HttpServer::Http2Connection::keep_result(Exchange::Bulk& bulk, std::size_t index, std::string result) {
  bulk.result_bytes = std::max(bulk.result_bytes, result.capacity());
  bulk.results[index] = {std::move(result)};
  if (book_bulk() || bulk.kind != BulkKind::rankings) return true;
  bulk.results[index] = {};
  return false;
}

// Books the bytes that are kept for the connection. While those of all connections are too many, closes
// the others that wait for their clients and keep more. Returns false if it is still too many.
bool HttpServer::Http2Connection::book_bulk() {
  ConnectionLimiter& places = session.places;
  session.set_bytes(held_bytes());
  while (!places.has_free_bytes(0)) {
    const auto goes = places.connection_to_close_for_bytes();
    if (!goes || *goes == session.connection_id || places.keeps_more(session.connection_id, *goes))
      return false;
    server.close_connection(*goes);
  }
  return true;
}

// Writes the results, and the end after the last ones, after a broken body, or when the key is gone.
void HttpServer::Http2Connection::write_results(Stream& stream) {
  Exchange::Bulk& bulk = *stream.bulk;
  const auto& refusal = bulk.refusal ? bulk.refusal : stream.body->fault();
  const bool last = refusal || server.closing || (stream.body->done() && !bulk.waits(*stream.body));
  std::string end;
  if (refusal) {
    server.metrics.record(Metric::http_refused, 1, refusal->code);
    end += bulk_result(bulk.lines + 1, http_status(refusal->kind), Answer::of(*refusal).body);
    ++bulk.failed;
  }
  if (last) end += bulk_end(bulk.lines, bulk.failed);
  const bool writes = !end.empty() || !bulk.results.empty();
  set_deadline(stream);
  stream.at = writes ? Stream::At::writing : Stream::At::reading;
  update_state();
  if (!writes) return;
  if (!std::exchange(bulk.begun, true))
    protocol.begin_answer(stream.id, 200,
                          {{"server", "troupe"},
                           {"content-type", "application/x-ndjson"},
                           {"x-request-id", stream.seen.request_id},
                           {"traceparent", write_traceparent(stream.seen.trace)}});
  bulk.write_part("", end, false, last);
  protocol.write(stream.id, std::exchange(bulk.out, std::string()));
  if (!last) return;
  stream.noted = true;
  stream.note({}, bulk.bytes);
  protocol.end_answer(stream.id, {});
  stream.body.reset();
}

}  // namespace troupe::server
