#pragma once
// `troupe-lab bench serve`: sends questions to a running service over HTTP and measures the answers. Each
// connection takes the next question when it is free, and waits until that question is due.
//
// In an open loop a question is due at its own time, whatever happens to the others. Its latency counts from
// that time, even if all connections were busy, so that a stall shows in every question that it delays. In a
// closed loop a question is due when a connection is free for it, which hides stalls. The result says which
// loop was used.
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "deploy/lab/bench/bench_client.h"
#include "deploy/lab/traces/trace_makers.h"
#include "server/http/http_client.h"

namespace troupe::deploy {

struct ServeBenchOptions {
  server::HttpCall server;  // URL and credentials; a question's own tenant overrides its tenant
  std::uint32_t connections = 64;
  bool closed = false;
  double speed = 1;                        // speed-up of the questions' times in an open loop
  std::uint32_t top_k = 10;                // of rankings
  std::string policy, arrangement, model;  // sent with each request; "" = not sent
};

struct Quantiles {
  double p50_ms = 0, p90_ms = 0, p99_ms = 0, max_ms = 0;
};

struct ServeRun {
  bool closed = false;
  std::uint64_t requests = 0, answered = 0;  // answered: with status 200
  double seconds = 0;                        // from the start to the last answer
  double asked_qps = 0;                      // open loop: requests per second of the time they were due in
  double answered_qps = 0;
  Quantiles due, sent;  // latencies of answered requests, from the due time and from sending
  // Open loop: requests that were sent more than a millisecond after they were due, because no connection
  // was free.
  std::uint64_t late = 0;
  double late_ms_max = 0;
  std::uint64_t connects = 0;  // connections made; above `connections` if the service closed some
  // Counts by status and code ("429 tenant_overloaded"), or by "no answer: …".
  std::map<std::string, std::uint64_t> errors;
  // Sums over the replies.
  std::uint64_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0, blocks_reused = 0,
                blocks_written = 0;
  std::uint64_t with_reuse = 0;                // answers with at least one reused token
  std::map<std::string, std::uint64_t> plans;  // rankings by plan
  std::uint64_t profiles = 0;                  // profiles written
};

// Sends all questions. Rethrows what `questions` throws, after the questions already sent are answered.
ServeRun run_serve_bench(const ServeBenchOptions& serve_options, Questions questions);

// Generates questions. Users are drawn by Zipf's law from `users`, which the service must know, and items
// from the options' catalog.
Questions generated_questions(GeneratedTraceOptions options, std::vector<std::string> users,
                              std::uint64_t requests);
// Returns the same questions with the due times of `arrivals` (see Arrivals).
Questions at_rate(Questions questions, const std::string& arrivals, double per_second, std::uint64_t seed);
// Writes profiles by POST /v1/users, one call per tenant, and counts them. Throws std::runtime_error if one
// is refused.
class ProfileWriter {
 public:
  explicit ProfileWriter(const ServeBenchOptions& serve_options) : serve_options_(serve_options) {}
  void write(const std::vector<PutUser>& profiles);
  std::uint64_t written() const { return written_; }

 private:
  const ServeBenchOptions serve_options_;
  server::HttpConnection connection_;
  std::uint64_t written_ = 0;
};

nlohmann::json to_json(const ServeRun& run);

}  // namespace troupe::deploy
