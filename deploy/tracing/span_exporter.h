#pragma once
// Sends spans of sampled requests to an OpenTelemetry collector, as OTLP JSON over HTTP. A thread
// sends them, so the HTTP server never waits. If the collector does not answer or is too slow, the
// newest spans are dropped and counted.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/actor/metrics.h"
#include "runtime/host/host.h"
#include "server/observability/observed_request.h"

namespace troupe::deploy {

struct Collector {
  std::string server, target;  // host:port, and the path for traces
};
// "http://host[:port][/base]". Throws ConfigError.
Collector parse_collector(const std::string& url);

class SpanExporter {
 public:
  // `node` distinguishes this process from others of the cluster. `metrics` must outlive this
  // object.
  SpanExporter(Collector collector, std::string node, MetricRegistry& metrics, LogSink log);
  ~SpanExporter();  // sends the waiting spans, for at most one second

  void take(const server::ObservedRequest& request);

 private:
  static constexpr std::size_t waiting_max = 4096, batch_max = 512;
  void run();
  void send(const std::deque<std::string>& spans);

  const Collector collector_;
  const std::string node_;
  MetricRegistry& metrics_;
  LogSink log_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::string> waiting_;  // spans of one request each, as JSON
  bool ends_ = false, away_ = false;
  std::thread thread_;
};

}  // namespace troupe::deploy
