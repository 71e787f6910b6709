#pragma once
// Sends the spans of recorded requests to an OpenTelemetry collector, as OTLP's JSON over HTTP, in a thread
// of its own: the door hands them over and waits for nothing. While the collector is away, or does not keep
// up, the newest are dropped and counted.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/actor/metrics.h"
#include "runtime/host/host.h"
#include "server/observability/seen_request.h"

namespace troupe::deploy {

struct Collector {
  std::string server, target;  // host:port, and where it takes traces
};
// "http://host[:port][/base]". Throws ConfigError.
Collector parse_collector(const std::string& url);

class SpanExporter {
 public:
  // `node` tells this process from others of the cluster. `metrics` outlives it.
  SpanExporter(Collector collector, std::string node, MetricRegistry& metrics, LogSink log);
  ~SpanExporter();  // what waits is sent once more, for a second at most

  void take(const server::SeenRequest& request);

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
  std::deque<std::string> waiting_;  // of each request
  bool ends_ = false, away_ = false;
  std::thread thread_;
};

}  // namespace troupe::deploy
