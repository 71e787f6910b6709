#pragma once
// `troupe bench serve`: questions asked of a service that runs, over HTTP, and what came back. Each
// connection takes the next question when it is free, and waits until that one is due. In an open loop a
// question is due at its time, whatever became of the others, and its latency counts from then, also where
// all connections were busy: who stalls answers for all that would have been asked meanwhile. In a closed
// loop a question is due when a connection is free for it, which hides that, and the result says which loop
// it was.
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
#include "server/http/front_door_client.h"

namespace troupe::deploy {

struct ServeAsk {
  server::HttpCall server;  // where, as whom; a question's own tenant goes before its
  std::uint32_t connections = 64;
  bool closed = false;
  double speed = 1;           // of an open loop: the questions' times so much shorter
  std::uint32_t top_k = 10;   // of rankings
  std::string policy, model;  // "": none is named
};

struct Quantiles {
  double p50_ms = 0, p90_ms = 0, p99_ms = 0, max_ms = 0;
};

struct ServeRun {
  bool closed = false;
  std::uint64_t requests = 0, answered = 0;  // answered: with status 200
  double seconds = 0;                        // from the start to the last answer
  double asked_qps = 0;                      // of an open loop: requests over the time in which they were due
  double answered_qps = 0;
  Quantiles due, sent;  // latencies of what was answered, from when it was due and from when it was sent
  // Of an open loop: requests that were sent more than a millisecond after they were due, for want of a free
  // connection.
  std::uint64_t late = 0;
  double late_ms_max = 0;
  std::uint64_t connects = 0;  // made; more than connections: the service closed some
  std::map<std::string, std::uint64_t>
      errors;  // by status and code: "429 tenant_overloaded", or "no answer: …"
  // As the replies say.
  std::uint64_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0, blocks_reused = 0,
                blocks_written = 0;
  std::uint64_t with_reuse = 0;                // answers with a reused token
  std::map<std::string, std::uint64_t> plans;  // of rankings
  std::uint64_t profiles = 0;                  // that were written
};

// Asks all questions. Rethrows what they throw, after the answers to those that were asked.
ServeRun run_serve_bench(const ServeAsk& ask, Questions questions);

// Generated ones: users and items drawn by Zipf's law, of `users`, which the service knows, and of the
// options' catalog.
Questions generated_questions(GeneratedTraceOptions options, std::vector<std::string> users,
                              std::uint64_t requests);
// The same questions at other times.
Questions at_rate(Questions questions, const std::string& arrivals, double per_second, std::uint64_t seed);
// Writes profiles by POST /v1/users, each tenant's apart, and counts them. Throws std::runtime_error if one
// is refused.
class ProfileWriter {
 public:
  explicit ProfileWriter(const ServeAsk& ask) : ask_(ask) {}
  void write(const std::vector<PutUser>& profiles);
  std::uint64_t written() const { return written_; }

 private:
  const ServeAsk ask_;
  server::HttpConnection connection_;
  std::uint64_t written_ = 0;
};

nlohmann::json to_json(const ServeRun& run);

}  // namespace troupe::deploy
