// Sends the spans (timed steps) of sampled requests to an OpenTelemetry collector from a thread of
// its own. Drops the newest spans if the collector is too slow.
#include "deploy/tracing/span_exporter.h"

#include <chrono>
#include <utility>

#include "deploy/data/version.h"
#include "runtime/config/config.h"
#include "runtime/wire/json_text.h"
#include "server/http/http_client.h"

namespace troupe::deploy {
namespace {

constexpr std::chrono::milliseconds spans_gather{500};  // time in which spans are gathered into one batch
constexpr std::int64_t call_us_max = 2'000'000, last_call_us_max = 1'000'000;

std::string text_attribute(const char* key, std::string_view value) {
  std::string out = std::string(R"({"key":")") + key + R"(","value":{"stringValue":)";
  append_json_string(out, value);
  return out + "}}";
}

std::string spans_body(const std::deque<std::string>& spans, const std::string& node) {
  std::string out =
      R"({"resourceSpans":[{"resource":{"attributes":[)" + text_attribute("service.name", "troupe") + "," +
      text_attribute("service.version", version()) + "," + text_attribute("service.instance.id", node) +
      R"(]},"scopeSpans":[{"scope":{"name":"troupe"},"spans":[)";
  for (const std::string& of_request : spans) out.append(out.back() == '[' ? "" : ",").append(of_request);
  return out + "]}]}]}";
}

}  // namespace

Collector parse_collector(const std::string& url) {
  const auto fail = [&](const char* what) -> ConfigError {
    return ConfigError("telemetry.collector is \"" + url + "\", " + what +
                       "; expected http://host:port, such as http://127.0.0.1:4318");
  };
  constexpr std::string_view scheme = "http://";
  if (url.starts_with("https://")) throw fail("and spans are sent without TLS only");
  if (!url.starts_with(scheme)) throw fail("which does not start with http://");
  const std::string rest = url.substr(scheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string server = rest.substr(0, slash), base = rest.substr(slash);
  if (server.empty() || server.find('@') != server.npos) throw fail("which names no host");
  if (server.find(':') == server.npos) server += ":4318";
  while (base.ends_with('/')) base.pop_back();
  return {server, base + "/v1/traces"};
}

SpanExporter::SpanExporter(Collector collector, std::string node, MetricRegistry& metrics, LogSink log)
    : collector_(std::move(collector)),
      node_(std::move(node)),
      metrics_(metrics),
      log_(std::move(log)),
      thread_([this] { run(); }) {}

SpanExporter::~SpanExporter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  more_.notify_all();
  thread_.join();
}

void SpanExporter::take(const server::ObservedRequest& request) {
  std::string spans = server::spans_of(request);
  if (spans.empty()) return;
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= waiting_max) return metrics_.record(Metric::spans_lost, 1);
  waiting_.push_back(std::move(spans));
}

void SpanExporter::run() {
  for (bool ends = false; !ends;) {
    std::deque<std::string> batch;
    {
      std::unique_lock lock(mutex_);
      ends = more_.wait_for(lock, spans_gather, [this] { return ends_; });
      while (!waiting_.empty() && batch.size() < batch_max) {
        batch.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
      }
    }
    if (!batch.empty()) send(batch);
  }
}

void SpanExporter::send(const std::deque<std::string>& spans) {
  const auto count = static_cast<double>(spans.size());
  server::HttpCall call{.server = collector_.server,
                        .method = "POST",
                        .target = collector_.target,
                        .body = spans_body(spans, node_)};
  {
    const std::lock_guard lock(mutex_);
    call.timeout_us = ends_ ? last_call_us_max : call_us_max;
  }
  std::string why;
  try {
    const server::HttpReply reply = server::http_call(call);
    if (reply.status / 100 != 2) why = "it answers " + std::to_string(reply.status);
  } catch (const std::exception& error) {
    why = error.what();
  }
  metrics_.record(why.empty() ? Metric::spans_exported : Metric::spans_lost, count);
  if (!why.empty() && !std::exchange(away_, true) && log_)
    log_(LogLevel::warning, "telemetry", "collector_away",
         std::vector<LogField>{{"server", collector_.server}, {"why", why}});
  if (why.empty()) away_ = false;
}

}  // namespace troupe::deploy
