// Sends questions over many HTTP connections to a running service, in an open or closed loop, and
// measures the latencies and errors.
#include "deploy/lab/bench/bench_serve.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr double late_ms = 1;
constexpr double due_us_max = 4e15;  // limit of the clock, which counts nanoseconds
constexpr std::size_t error_kinds_max = 64, refusal_bytes_max = 120;
constexpr const char* other_errors = "others";  // counts the kinds beyond error_kinds_max

double milliseconds(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

Quantiles quantiles(std::vector<double>& latencies_ms) {
  std::ranges::sort(latencies_ms);
  if (latencies_ms.empty()) return {};
  return {percentile(latencies_ms, 0.50), percentile(latencies_ms, 0.90), percentile(latencies_ms, 0.99),
          latencies_ms.back()};
}

Json body_of(const RankRequest& request, const ServeBenchOptions& serve_options) {
  Json body{{"user", request.user}, {"candidates", request.candidates}, {"top_k", serve_options.top_k}};
  if (!serve_options.policy.empty()) body["policy"] = serve_options.policy;
  if (!serve_options.arrangement.empty()) body["arrangement"] = serve_options.arrangement;
  return body;
}
Json body_of(const GenerateRequest& request, const ServeBenchOptions&) {
  return {{"user", request.user}, {"top_k", request.top_k}, {"width", request.width}};
}

server::HttpCall call_of(const Question& question, const ServeBenchOptions& serve_options) {
  server::HttpCall call = serve_options.server;
  call.method = "POST";
  call.target = std::holds_alternative<RankRequest>(question.request) ? "/v1/rank" : "/v1/generate";
  std::visit(
      [&](const auto& request) {
        if (!request.tenant.empty()) call.tenant = request.tenant;
        Json body = body_of(request, serve_options);
        if (!serve_options.model.empty()) body["model"] = serve_options.model;
        call.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
      },
      question.request);
  return call;
}

std::uint64_t count_in(const Json& reply, const char* name) {
  const auto at = reply.find(name);
  return at != reply.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
}
std::string text_in(const Json& reply, const char* name) {
  const auto at = reply.find(name);
  return at != reply.end() && at->is_string() ? at->get<std::string>().substr(0, refusal_bytes_max) : "";
}

std::string error_of(const server::HttpReply& reply, const Json& body) {
  const std::string code = body.contains("error") ? text_in(body.at("error"), "code") : "";
  return std::to_string(reply.status) + (code.empty() ? "" : " " + code);
}

// Extracts the cause from a client error such as "http://host:port: connection refused; expected …".
std::string error_of(const std::string& what, const std::string& server) {
  const std::size_t host = what.find(server.substr(server.find("//") + 1)),
                    after = host == std::string::npos ? host : what.find(": ", host);
  const std::string reported = after == std::string::npos ? what : what.substr(after + 2);
  return "no answer: " + reported.substr(0, std::min(reported.find("; expected"), refusal_bytes_max));
}

void count(std::map<std::string, std::uint64_t>& errors, const std::string& error) {
  ++errors[errors.contains(error) || errors.size() < error_kinds_max ? error : other_errors];
}

class ServeBenchClient {
 public:
  ServeBenchClient(const ServeBenchOptions& serve_options, Questions questions)
      : serve_options_(serve_options), questions_(std::move(questions)) {}

  ServeRun run() {
    begin_ = Clock::now();
    {
      std::vector<std::jthread> connections;
      for (std::uint32_t i = 0; i < serve_options_.connections; ++i)
        connections.emplace_back([this] { send_questions(); });
    }
    if (failure_) std::rethrow_exception(failure_);
    run_.closed = serve_options_.closed;
    run_.seconds = milliseconds(last_ - begin_) / 1000;
    if (run_.seconds > 0) run_.answered_qps = static_cast<double>(run_.answered) / run_.seconds;
    if (!serve_options_.closed && last_due_ > begin_)
      run_.asked_qps = static_cast<double>(run_.requests) / (milliseconds(last_due_ - begin_) / 1000);
    run_.due = quantiles(due_ms_);
    run_.sent = quantiles(sent_ms_);
    return std::move(run_);
  }

 private:
  void send_questions() {
    server::HttpConnection connection;
    Question question;
    Clock::time_point due;
    while (fetch(question, due)) {
      if (!serve_options_.closed) std::this_thread::sleep_until(due);
      send_question(connection, question, due);
    }
    const std::lock_guard lock(mutex_);
    run_.connects += connection.connects();
  }

  // Takes the next question under the mutex, so that profiles which must be written first are written by one
  // connection at a time.
  bool fetch(Question& question, Clock::time_point& due) {
    const std::lock_guard lock(mutex_);
    try {
      ended_ = ended_ || !questions_(question);
    } catch (...) {
      failure_ = std::current_exception();
      ended_ = true;
    }
    if (ended_) return false;
    ++run_.requests;
    const double after_us = std::min(static_cast<double>(question.at.us) / serve_options_.speed, due_us_max);
    due = serve_options_.closed ? Clock::now()
                                : begin_ + std::chrono::microseconds(static_cast<std::int64_t>(after_us));
    last_due_ = std::max(last_due_, due);
    return true;
  }

  void send_question(server::HttpConnection& connection, const Question& question, Clock::time_point due) {
    const server::HttpCall call = call_of(question, serve_options_);
    const Clock::time_point sent = Clock::now();
    try {
      const server::HttpReply reply = connection.call(call);
      const Clock::time_point now = Clock::now();
      const Json body = Json::parse(reply.body, nullptr, false);
      const std::lock_guard lock(mutex_);
      note_sent(due, sent, now);
      if (reply.status != 200 || !body.is_object())
        return count(run_.errors, error_of(reply, body.is_object() ? body : Json::object()));
      due_ms_.push_back(milliseconds(now - due));
      sent_ms_.push_back(milliseconds(now - sent));
      take(body);
    } catch (const server::ClientError& error) {
      const std::lock_guard lock(mutex_);
      note_sent(due, sent, Clock::now());
      count(run_.errors, error_of(error.what(), serve_options_.server.server));
    }
  }

  void note_sent(Clock::time_point due, Clock::time_point sent, Clock::time_point now) {
    last_ = std::max(last_, now);
    if (serve_options_.closed) return;
    run_.late += milliseconds(sent - due) > late_ms;
    run_.late_ms_max = std::max(run_.late_ms_max, milliseconds(sent - due));
  }

  void take(const Json& reply) {
    ++run_.answered;
    const std::uint64_t reused = count_in(reply, "tokens_reused");
    run_.tokens_reused += reused;
    run_.with_reuse += reused > 0;
    run_.tokens_total += count_in(reply, "tokens_total");
    run_.tokens_computed += count_in(reply, "tokens_computed");
    run_.blocks_reused += count_in(reply, "blocks_reused");
    run_.blocks_written += count_in(reply, "blocks_written");
    if (const std::string plan = text_in(reply, "plan"); !plan.empty()) count(run_.plans, plan);
  }

  const ServeBenchOptions& serve_options_;
  const Questions questions_;
  Clock::time_point begin_, last_due_, last_;
  std::mutex mutex_;  // guards questions_, last_due_, last_ and all below
  bool ended_ = false;
  std::exception_ptr failure_;
  std::vector<double> due_ms_, sent_ms_;
  ServeRun run_;
};

Json to_json(const Quantiles& q) {
  return {{"p50_ms", q.p50_ms}, {"p90_ms", q.p90_ms}, {"p99_ms", q.p99_ms}, {"max_ms", q.max_ms}};
}

}  // namespace

ServeRun run_serve_bench(const ServeBenchOptions& serve_options, Questions questions) {
  return ServeBenchClient(serve_options, std::move(questions)).run();
}

Questions generated_questions(GeneratedTraceOptions options, std::vector<std::string> users,
                              std::uint64_t requests) {
  options.users = static_cast<std::uint32_t>(users.size());
  options.history_median = 1;  // histories are not used
  auto maker = std::make_shared<GeneratedTrace>(std::move(options));
  return [maker, users = std::move(users), left = requests](Question& question) mutable {
    TracedRequest drawn;
    if (left == 0 || !maker->next(drawn)) return false;
    --left;
    const std::string& user = users[std::stoul(drawn.user.substr(1))];
    if (drawn.generates)
      question.request =
          GenerateRequest{.tenant = drawn.tenant, .user = user, .top_k = drawn.top_k, .width = drawn.width};
    else
      question.request =
          RankRequest{.tenant = drawn.tenant, .user = user, .candidates = std::move(drawn.candidates)};
    question.at = drawn.at;
    return true;
  };
}

Questions at_rate(Questions questions, const std::string& arrivals, double per_second, std::uint64_t seed) {
  auto times = std::make_shared<Arrivals>(arrivals, per_second, seed);
  return [questions = std::move(questions), times](Question& question) {
    if (!questions(question)) return false;
    question.at = times->next();
    return true;
  };
}

void ProfileWriter::write(const std::vector<PutUser>& profiles) {
  std::map<std::string, std::string> lines;  // by tenant
  for (const PutUser& put : profiles)
    lines[put.tenant] += Json{{"user", put.user}, {"history", put.history}}.dump(
                             -1, ' ', false, Json::error_handler_t::replace) +
                         "\n";
  for (const auto& [tenant, body] : lines) {
    server::HttpCall call = serve_options_.server;
    call.method = "POST";
    call.target = serve_options_.model.empty() ? "/v1/users" : "/v1/users?model=" + serve_options_.model;
    if (!tenant.empty()) call.tenant = tenant;
    call.body = body;
    const server::HttpReply reply = connection_.call(call);
    const std::size_t failed = reply.body.find("\"failed\":");
    if (reply.status != 200 || failed == std::string::npos ||
        reply.body.compare(failed, 11, "\"failed\":0}") != 0)
      throw std::runtime_error(serve_options_.server.server + ": profiles were refused with status " +
                               std::to_string(reply.status) + " and \"" + reply.body.substr(0, 300) +
                               "\"; expected a service that takes the trace's users and has its items");
  }
  written_ += profiles.size();
}

Json to_json(const ServeRun& run) {
  Json json{{"loop", run.closed ? "closed" : "open"},
            {"requests", run.requests},
            {"answered", run.answered},
            {"seconds", run.seconds},
            {"answered_qps", run.answered_qps},
            {"latency", to_json(run.due)},
            {"latency_from_sending", to_json(run.sent)},
            {"connects", run.connects},
            {"errors", run.errors},
            {"tokens_total", run.tokens_total},
            {"tokens_computed", run.tokens_computed},
            {"tokens_reused", run.tokens_reused},
            {"blocks_reused", run.blocks_reused},
            {"blocks_written", run.blocks_written},
            {"answers_with_reuse", run.with_reuse},
            {"plans", run.plans},
            {"profiles_written", run.profiles}};
  if (!run.closed)
    json.update(
        {{"asked_qps", run.asked_qps}, {"sent_late", run.late}, {"sent_late_ms_max", run.late_ms_max}});
  return json;
}

}  // namespace troupe::deploy
