// `troupe-lab bench serve`: replays a trace, or drawn load, against a running service. The run is in
// bench_serve.cc.
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "deploy/commands/server_call.h"
#include "deploy/data/dataset.h"
#include "deploy/data/text_file.h"
#include "deploy/lab/bench/bench_serve.h"
#include "deploy/lab/bench/bench_trace.h"
#include "deploy/lab/commands/command_bench.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

struct BenchServeOptions {
  ServerOptions server;
  ServeBenchOptions ask;
  std::string trace, data, json, arrivals = "poisson";
  std::uint64_t requests = 0, seed = 7;
  std::uint32_t candidates = 100, top_k = 10;
  double rate = 0, user_skew = 0.6, item_skew = 0.6, timeout_s = 30;
  bool write_profiles = false, generates = false;
};

constexpr std::uint64_t drawn_requests = 1000;  // number of drawn requests without --requests

void check(const BenchServeOptions& options) {
  if (options.trace.empty() == options.data.empty())
    throw std::invalid_argument(
        std::string("bench serve has ") +
        (options.trace.empty() ? "neither --trace nor --data" : "both --trace and --data") +
        "; expected --trace FILE, or --data FOLDER with the service's items and users to draw requests from");
  if (!options.data.empty() && options.rate == 0 && !options.ask.closed)
    throw std::invalid_argument(
        "bench serve has --data without --rate or --closed; expected one of them, because drawn requests "
        "have no times");
  if (options.write_profiles && options.trace.empty())
    throw std::invalid_argument("--write-profiles requires a trace; expected --trace FILE");
}

Questions drawn(const BenchServeOptions& options) {
  GeneratedTraceOptions drawing{.common = {.candidates = options.candidates,
                                           .generates = options.generates,
                                           .top_k = options.top_k,
                                           .seed = options.seed},
                                .user_exponent = options.user_skew,
                                .item_exponent = options.item_skew};
  for (const auto& [id, title] : read_titles(options.data)) drawing.catalog.push_back(id);
  drawing.items = static_cast<std::uint32_t>(drawing.catalog.size());
  if (drawing.catalog.size() < options.candidates)
    throw ImportError(options.data + ": the catalog has " + std::to_string(drawing.catalog.size()) +
                      " items; expected at least --candidates " + std::to_string(options.candidates));
  std::vector<std::string> users;
  for (PutUser& user : read_users(options.data, HistoryPart::all)) users.push_back(std::move(user.user));
  if (users.empty())
    throw ImportError(options.data + ": there are no users; expected the users that the service has");
  return generated_questions(std::move(drawing), std::move(users),
                             options.requests > 0 ? options.requests : drawn_requests);
}

std::string milliseconds_text(const Quantiles& q) {
  return "P50 " + fixed(q.p50_ms, 2) + ", P90 " + fixed(q.p90_ms, 2) + ", P99 " + fixed(q.p99_ms, 2) +
         ", longest " + fixed(q.max_ms, 2) + " ms";
}

double share(std::uint64_t part, std::uint64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

void print_run(std::ostream& out, const ServeRun& run) {
  out << run.answered << " of " << run.requests << " requests answered in " << fixed(run.seconds, 2)
      << " s: " << fixed(run.answered_qps, 1) << " per second";
  if (!run.closed) out << ", asked at " << fixed(run.asked_qps, 1);
  out << "\nlatency "
      << (run.closed
              ? "from sending (closed loop: requests that would have come during a stall were not sent)"
              : "from when it was due")
      << ": " << milliseconds_text(run.due) << "\n";
  if (!run.closed) {
    out << "latency from sending: " << milliseconds_text(run.sent)
        << "\nsent late, because no connection was free: " << run.late << " ("
        << percent(share(run.late, run.requests)) << "), by at most " << fixed(run.late_ms_max, 2) << " ms\n";
  }
  out << "tokens reused " << percent(share(run.tokens_reused, run.tokens_total)) << " of " << run.tokens_total
      << ", in " << percent(share(run.with_reuse, run.answered)) << " of the replies; blocks "
      << run.blocks_reused << " reused, " << run.blocks_written << " written\n";
  for (const auto& [plan, times] : run.plans) out << "plan " << plan << ": " << times << "\n";
  if (run.profiles > 0) out << "profiles written: " << run.profiles << "\n";
  if (run.errors.empty()) return;
  Table table({{"error"}, {"times", Table::Align::right}});
  for (const auto& [error, times] : run.errors) table.row({error, std::to_string(times)});
  table.print(out);
}

int run_bench_serve(BenchServeOptions& options) {
  check(options);
  if (!options.json.empty()) check_output(options.json);
  options.ask.server = options.server.call();
  options.ask.server.timeout_us = static_cast<std::int64_t>(options.timeout_s * 1e6);
  options.ask.top_k = options.top_k;
  server::HttpCall live = options.ask.server;
  live.target = "/v2/health/live";
  server::http_call(live);  // reports an unreachable service once
  ProfileWriter profiles(options.ask);
  std::optional<TraceQuestions> trace;
  Questions questions;
  if (options.trace.empty()) {
    questions = drawn(options);
  } else {
    TraceQuestions::WriteProfiles write;
    if (options.write_profiles) write = [&](const std::vector<PutUser>& changed) { profiles.write(changed); };
    trace.emplace(options.trace, options.requests, Config().router.history_events_max, std::move(write));
    questions = [&trace](Question& question) { return trace->next(question); };
  }
  if (options.rate > 0)
    questions = at_rate(std::move(questions), options.arrivals, options.rate, options.seed);
  ServeRun run = run_serve_bench(options.ask, std::move(questions));
  run.profiles = profiles.written();
  print_run(options.json == "-" ? std::cerr : std::cout, run);
  if (!options.json.empty()) write_output(options.json, to_json(run).dump(2) + "\n");
  return run.requests > 0 ? 0 : 1;
}

}  // namespace

void add_bench_serve(Command bench) {
  auto options = std::make_shared<BenchServeOptions>();
  Command command = bench.add_command("serve", "Send a trace, or drawn load, to a running service over HTTP");
  options->server.add_to(command, "--url,--server");
  command.add_option("--trace", options->trace,
                     "Send the requests of this trace (docs/reference/trace-format.md)");
  command.add_option("--data", options->data,
                     "Draw requests from the users and items of this folder, which the service must have");
  command
      .add_option("--requests", options->requests,
                  "Number of requests; default: the whole trace, or 1000 drawn ones")
      .between(1, 10'000'000);
  Option closed = command.add_flag(
      "--closed", options->ask.closed,
      "Closed loop: each connection sends its next request when the previous one is answered");
  Option rate = command.add_option("--rate", options->rate, "Requests per second; replaces the trace's times")
                    .between(1e-3, 1e6)
                    .excludes(closed);
  command
      .add_option("--arrivals", options->arrivals,
                  "With --rate: arrival times: poisson, constant, or a file as for trace convert")
      .default_shown()
      .needs(rate);
  command.add_option("--speed", options->ask.speed, "Replay speed-up factor of the trace; 2: twice as fast")
      .between(1e-6, 1e6)
      .default_shown()
      .excludes(rate);
  command
      .add_option("--connections", options->ask.connections,
                  "Number of connections, each with one request at a time")
      .between(1, 10'000)
      .default_shown();
  command.add_option("--timeout", options->timeout_s, "Seconds after which a request counts as unanswered")
      .between(0.01, 3600.0)
      .default_shown();
  command.add_flag(
      "--write-profiles", options->write_profiles,
      "Write the trace's profiles to the service before the requests that need them; the service keeps them");
  command.add_option("--candidates", options->candidates, "Number of candidates of a drawn ranking")
      .between(1, 100'000)
      .default_shown();
  command.add_flag("--generate", options->generates, "Draw generation requests instead of rankings");
  command.add_option("--user-skew", options->user_skew, "Zipf exponent for drawing users")
      .between(0.0, 4.0)
      .default_shown();
  command.add_option("--item-skew", options->item_skew, "Zipf exponent for drawing items")
      .between(0.0, 4.0)
      .default_shown();
  command
      .add_option("--top", options->top_k,
                  "Number of items per reply, for rankings and drawn requests; generation requests of a "
                  "trace have their own")
      .between(1, 100'000)
      .default_shown();
  command.add_option("--policy", options->ask.policy, "Policy of ranking requests; default: the service's");
  command.add_option("--arrangement", options->ask.arrangement,
                     "Declared arrangement of ranking requests: causal, user_first, item_first or "
                     "candidates_apart; default: as the model's prompt form says");
  command.add_option("--model-name", options->ask.model, "Model to ask, if the service has several");
  command.add_option("--seed", options->seed, "Seed for drawing requests").default_shown();
  command.add_option(
      "--json", options->json,
      "Write the figures to this file, or - for standard output (and the table to standard error)");
  command.runs([options] { return run_bench_serve(*options); });
}

}  // namespace troupe::deploy
