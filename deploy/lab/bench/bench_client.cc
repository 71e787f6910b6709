// Sends the requests of `troupe-lab bench rank` to a node in this process, in a closed loop or at given
// times, and counts the answers.
#include "deploy/lab/bench/bench_client.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <thread>

#include "deploy/node/local_node.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

const Address server = LocalNode::address(Role::server);
const Address router_address = LocalNode::address(Role::router);

// Answers per wake-up of the waiting thread. Waking it for each answer would cost as much as a core's step.
constexpr std::uint64_t progress_every = 64;
// Limit of the clock, which counts nanoseconds. TraceReader::due refuses traces before they reach it.
constexpr double after_us_max = 4e15;

// Returns the place of an item in a ranking, from 1; 0: it is not there. Ties count against it.
std::size_t rank_of(const RankReply& reply, const std::string& truth) {
  const auto found = std::ranges::find(reply.items, truth, &RankedItem::id);
  if (found == reply.items.end()) return 0;
  return 1 + static_cast<std::size_t>(std::ranges::count_if(
                 reply.items, [&](const RankedItem& i) { return i.score >= found->score && i.id != truth; }));
}

}  // namespace

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

BenchClient::BenchClient(Host& host, Questions questions, std::uint64_t total, bool profile)
    : host_(host), questions_(std::move(questions)), total_(total), profiles_(profile) {}

BenchClient::~BenchClient() { host_.stop(); }

// ---- sending ----

bool BenchClient::fetch(Question& question) {
  if (ended_) return false;
  try {
    ended_ = !questions_(question);
  } catch (...) {
    failure_ = std::current_exception();
    ended_ = true;
  }
  return !ended_;
}

void BenchClient::send_next() {
  Question question;
  if (fetch(question)) post(std::move(question), Clock::now());
}

void BenchClient::post(Question question, Clock::time_point since) {
  ++sent_;
  std::visit([this](auto& request) { request.id = sent_; }, question.request);
  result_.judged += !question.truth.empty();
  pending_[sent_] = {since, std::move(question.truth)};
  std::visit([this](auto& request) { host_.post(router_address, server, std::move(request)); },
             question.request);
}

BenchClient::Clock::time_point BenchClient::start() {
  if (profiles_) profile_.emplace();
  cpu_begin_ = process_cpu_seconds();
  return Clock::now();
}

BenchRankRun BenchClient::run_closed(std::uint32_t in_flight) {
  Progress progress("requests", total_);
  const Clock::time_point begin = start();
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    for (std::uint32_t i = 0; i < in_flight; ++i) send_next();
    while (!ended_ || finished_ < sent_) {
      changed_.wait(lock);
      progress.at(finished_);
    }
  }
  return finish(begin);
}

BenchRankRun BenchClient::run_open(double speed) {
  Progress progress("requests", total_);
  const Clock::time_point begin = start();
  std::unique_lock lock(mutex_);
  for (Question question; fetch(question);) {
    const double after_us = std::min(static_cast<double>(question.at.us) / speed, after_us_max);
    const Clock::time_point due = begin + std::chrono::microseconds(static_cast<std::int64_t>(after_us));
    lock.unlock();
    std::this_thread::sleep_until(due);
    lock.lock();
    post(std::move(question), due);
    progress.at(finished_);
  }
  changed_.wait(lock, [this] { return finished_ == sent_; });
  lock.unlock();
  return finish(begin);
}

// ---- answers ----

void BenchClient::deliver(Message answer) {
  const std::lock_guard lock(mutex_);
  if (const auto* reply = std::get_if<RankReply>(&answer)) {
    take(*reply);
    finish_one(reply->id);
  } else if (const auto* generated = std::get_if<GenerateReply>(&answer)) {
    take(*generated);
    finish_one(generated->id);
  } else if (const auto* refused = std::get_if<Refused>(&answer)) {
    ++result_.errors;
    finish_one(refused->id);
  } else if (const auto* status = std::get_if<StatusReply>(&answer)) {
    for (const StatusField& field : status->fields)
      if (field.name == "precompute") precompute_ = field.value;
  }
  if (pending_.empty() || finished_ % progress_every == 0) changed_.notify_all();
}

void BenchClient::finish_one(RequestId id) {
  const auto at = pending_.find(id);
  latencies_ms_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - at->second.since).count());
  pending_.erase(at);
  ++finished_;
  if (closed_) send_next();
}

template <class Reply>
void BenchClient::take(const Reply& reply) {
  result_.tokens_total += reply.tokens_total;
  result_.tokens_computed += reply.tokens_computed;
  result_.tokens_reused += reply.tokens_reused;
  reused_.push_back(
      {static_cast<std::uint32_t>(reply.tokens_reused), static_cast<std::uint32_t>(reply.tokens_total)});
  const Timings& took = reply.timings;
  if (took.predicted > 0)
    predictions_.push_back(static_cast<double>(took.total - took.features - took.lookup) /
                           static_cast<double>(took.predicted));
  if constexpr (std::same_as<Reply, RankReply>) {
    if (keeps_answers_) keep(reply);
    ++(reply.plan == "user" ? result_.plans_user : result_.plans_item);
  } else {
    ++result_.plans_user;  // a generator's history is always the prefix
  }
  if (const std::string& truth = pending_.at(reply.id).truth; !truth.empty()) judge(reply, truth);
}

std::vector<double> BenchClient::hit_rates() const {
  constexpr std::size_t parts = 10;
  std::vector<double> rates;
  for (std::size_t part = 0; part < parts; ++part) {
    double reused = 0, total = 0;
    for (std::size_t i = part * reused_.size() / parts; i < (part + 1) * reused_.size() / parts; ++i) {
      reused += reused_[i].reused;
      total += reused_[i].total;
    }
    rates.push_back(total > 0 ? reused / total : 0);
  }
  return rates;
}

void BenchClient::judge(const RankReply& reply, const std::string& truth) {
  if (const std::size_t rank = rank_of(reply, truth); rank > 0) count_hit(rank - 1);
}

void BenchClient::keep(const RankReply& reply) {
  const std::string& truth = pending_.at(reply.id).truth;
  RankedAnswer answer{.judged = !truth.empty(), .rank = rank_of(reply, truth), .best = {}};
  for (const RankedItem& item : reply.items)
    if (answer.best.size() < 10) answer.best.push_back(item.id);
  if (result_.answers.size() < reply.id) result_.answers.resize(reply.id);
  result_.answers[reply.id - 1] = std::move(answer);
}

// Ties keep their order, because the order of generated items is part of the answer.
void BenchClient::judge(const GenerateReply& reply, const std::string& truth) {
  const auto found = std::ranges::find(reply.items, truth, &GeneratedItem::id);
  if (found != reply.items.end()) count_hit(static_cast<std::size_t>(found - reply.items.begin()));
}

void BenchClient::count_hit(std::size_t better) {
  if (better >= 10) return;
  result_.recall_at_10 += 1;
  result_.ndcg_at_10 += 1 / std::log2(2.0 + static_cast<double>(better));
}

void BenchClient::wait_until_precomputed() {
  for (;;) {
    host_.post(router_address, server, StatusRequest{1});
    std::unique_lock lock(mutex_);
    const auto is_over = [this] {
      return precompute_ == "done" || precompute_ == "full" || precompute_ == "off";
    };
    if (changed_.wait_for(lock, std::chrono::milliseconds(50), is_over)) return;
  }
}

BenchRankRun BenchClient::finish(Clock::time_point begin) {
  if (failure_) std::rethrow_exception(failure_);
  BenchRankRun run = result_;
  run.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  run.cpu_seconds = process_cpu_seconds() - cpu_begin_;
  if (profile_) run.profile = profile_->take();
  run.requests = finished_;
  run.qps = static_cast<double>(finished_) / run.seconds;
  run.tenths = hit_rates();
  std::sort(latencies_ms_.begin(), latencies_ms_.end());
  run.p50_ms = percentile(latencies_ms_, 0.50);
  run.p99_ms = percentile(latencies_ms_, 0.99);
  std::sort(predictions_.begin(), predictions_.end());
  run.prediction_p10 = percentile(predictions_, 0.10);
  run.prediction_p50 = percentile(predictions_, 0.50);
  run.prediction_p90 = percentile(predictions_, 0.90);
  const double judged = static_cast<double>(std::max<std::uint64_t>(run.judged, 1));
  run.recall_at_10 /= judged;
  run.ndcg_at_10 /= judged;
  if (run.tokens_total > 0)
    run.hit_rate = static_cast<double>(run.tokens_reused) / static_cast<double>(run.tokens_total);
  return run;
}

}  // namespace troupe::deploy
