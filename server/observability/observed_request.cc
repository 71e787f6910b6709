// Turns the facts about a finished request into an access log line, an entry of the slowest
// requests, and spans for tracing.
#include "server/observability/observed_request.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/base/check.h"
#include "runtime/wire/json_text.h"

namespace troupe::server {

namespace {

struct StageTime {
  std::string_view name;
  std::int64_t us;
};

// Stages one after the other; pulls are part of `blocks`.
std::array<StageTime, 6> stages_of(const Timings& t) {
  return {{{"features", t.features},
           {"lookup", t.lookup},
           {"turn", t.turn},
           {"blocks", t.blocks},
           {"queue", t.queue},
           {"compute", t.compute}}};
}

void append_text(std::string& out, std::string_view key, std::string_view value) {
  out += out.empty() || out.back() == '[' ? "{\"key\":" : ",{\"key\":";
  append_json_string(out, key);
  append_json_string(out += ",\"value\":{\"stringValue\":", value);
  out += "}}";
}
// OTLP's JSON writes integers as strings.
void append_whole(std::string& out, std::string_view key, std::uint64_t value) {
  out += out.empty() || out.back() == '[' ? "{\"key\":" : ",{\"key\":";
  append_json_string(out, key);
  out += ",\"value\":{\"intValue\":\"" + std::to_string(value) + "\"}}";
}

struct Span {
  std::string_view name;
  std::uint64_t id, parent;
  int kind;  // 1 internal, 2 server
  std::int64_t begin_us, end_us;
};
std::string head_of(const ObservedRequest& request, const Span& span) {
  std::string out = R"({"traceId":")" + trace_id(request.trace) + R"(","spanId":")" + span_id(span.id) + '"';
  if (span.parent != 0) out += R"(,"parentSpanId":")" + span_id(span.parent) + '"';
  append_json_string(out += ",\"name\":", span.name);
  const auto ns = [](std::int64_t us) { return std::to_string(us) + "000\""; };
  return out + ",\"kind\":" + std::to_string(span.kind) + ",\"startTimeUnixNano\":\"" + ns(span.begin_us) +
         ",\"endTimeUnixNano\":\"" + ns(span.end_us);
}

std::string attributes_of(const ObservedRequest& request) {
  std::string out = "[";
  append_text(out, "http.request.method", request.method);
  append_text(out, "http.route", request.route);
  append_whole(out, "http.response.status_code", request.status);
  append_text(out, "troupe.request_id", request.request_id);
  append_text(out, "troupe.tenant", request.tenant);
  if (!request.model.empty()) append_text(out, "troupe.model", request.model);
  if (!request.code.empty()) append_text(out, "troupe.code", request.code);
  if (!request.run.kind.empty()) {
    append_text(out, "troupe.plan", request.run.plan);
    append_whole(out, "troupe.node", request.run.node);
    append_whole(out, "troupe.tokens_total", request.run.tokens_total);
    append_whole(out, "troupe.tokens_reused", request.run.tokens_reused);
  }
  return out + "]";
}

}  // namespace

AccessLog access_log(std::string_view name) {
  constexpr std::array<std::string_view, 3> names{"off", "errors", "all"};
  const auto at = std::ranges::find(names, name);
  TROUPE_CHECK(at != names.end(), "http.access_log has a known value");
  return static_cast<AccessLog>(at - names.begin());
}

bool is_logged(AccessLog which, const ObservedRequest& request) {
  return which == AccessLog::all || (which == AccessLog::errors && request.status >= 400);
}

bool ErrorLines::take(std::int64_t now_us) {
  const double grown = static_cast<double>(std::max<std::int64_t>(now_us - last_us_, 0)) * per_second / 1e6;
  left_ = std::min<double>(left_ + grown, burst);
  last_us_ = now_us;
  if (left_ < 1) return ++left_out_, false;
  left_ -= 1;
  return true;
}

std::uint64_t ErrorLines::take_left_out() { return std::exchange(left_out_, 0); }

std::vector<LogField> access_fields(const ObservedRequest& request) {
  std::vector<LogField> fields{{"request_id", request.request_id},
                               {"trace_id", trace_id(request.trace)},
                               {"method", request.method},
                               {"route", request.route},
                               {"tenant", request.tenant},
                               {"status", request.status},
                               {"us", request.took_us},
                               {"bytes_in", request.bytes_in},
                               {"bytes_out", request.bytes_out}};
  if (!request.model.empty()) fields.push_back({"model", request.model});
  if (!request.code.empty()) fields.push_back({"code", request.code});
  if (request.run.kind.empty()) return fields;
  fields.push_back({"plan", request.run.plan});
  fields.push_back({"node", request.run.node});
  fields.push_back({"tokens", request.run.tokens_total});
  fields.push_back({"tokens_reused", request.run.tokens_reused});
  for (const StageTime& stage : stages_of(request.run.timings))
    fields.push_back({std::string(stage.name) + "_us", stage.us});
  return fields;
}

std::string spans_of(const ObservedRequest& request) {
  if (!request.trace.sampled) return "";
  const std::int64_t end_us = request.began_us + request.took_us;
  const std::string name = request.method + " " + request.route;
  std::string out = head_of(request, {name, request.trace.span, request.parent, 2, request.began_us, end_us});
  out += ",\"attributes\":" + attributes_of(request) +
         ",\"status\":{\"code\":" + (request.status >= 500 ? "2" : "0") + "}}";
  std::int64_t at_us = request.began_us;
  std::uint64_t number = 0;
  for (const StageTime& stage : stages_of(request.run.timings)) {
    ++number;
    if (stage.us <= 0) continue;
    const std::int64_t ends_us = std::min(at_us + stage.us, end_us);
    out += "," +
           head_of(request,
                   {stage.name, request.trace.span ^ (number << 56), request.trace.span, 1, at_us, ends_us}) +
           "}";
    at_us = ends_us;
  }
  return out;
}

}  // namespace troupe::server
