#include "deploy/bench_rank.h"

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "deploy/box.h"
#include "deploy/prompt_file.h"
#include "deploy/table.h"
#include "runtime/caf_host.h"

namespace troupe::deploy {

namespace {

using Clock = std::chrono::steady_clock;

struct TemporaryFolder {
  std::filesystem::path path;
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "troupe-bench-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw std::runtime_error(name + ": cannot be made; expected a writable folder");
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

// Keeps `in_flight` requests under way and collects their answers.
class Client {
 public:
  Client(const BenchRank& bench, Host& host) : bench_(bench), host_(host) {}
  ~Client() { host_.stop(); }  // nobody may deliver to it any more

  void deliver(Message answer);
  BenchRankRun run();
  void wait_until_precomputed();

 private:
  void send_next();  // under mutex_
  void take(const RankReply& reply);
  void finish_one(RequestId id);

  const BenchRank& bench_;
  Host& host_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Clock::time_point> sent_;
  std::vector<double> latencies_ms_;
  std::size_t next_ = 0, finished_ = 0;
  std::string precompute_;
  BenchRankRun result_;
};

const Address door = Box::address(Role::door);
const Address router_address = Box::address(Role::router);

void Client::send_next() {
  if (next_ == bench_.visits.size()) return;
  const Visit& visit = bench_.visits[next_];
  RankRequest request;
  request.id = ++next_;  // the visit's number, from 1
  request.user = bench_.rows[visit.user].user;
  request.candidates = bench_.rows[visit.candidates].candidates;
  sent_.push_back(Clock::now());
  host_.post(router_address, door, std::move(request));
}

void Client::deliver(Message answer) {
  const std::lock_guard lock(mutex_);
  if (const auto* reply = std::get_if<RankReply>(&answer)) {
    take(*reply);
    finish_one(reply->id);
  } else if (const auto* refused = std::get_if<Refused>(&answer)) {
    ++result_.errors;
    finish_one(refused->id);
  } else if (const auto* status = std::get_if<StatusReply>(&answer)) {
    for (const StatusField& field : status->fields)
      if (field.name == "precompute") precompute_ = field.value;
  }
  changed_.notify_all();
}

void Client::finish_one(RequestId id) {
  latencies_ms_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - sent_.at(id - 1)).count());
  ++finished_;
  send_next();
}

void Client::take(const RankReply& reply) {
  result_.tokens_total += reply.tokens_total;
  result_.tokens_computed += reply.tokens_computed;
  result_.tokens_reused += reply.tokens_reused;
  ++(reply.plan == "user" ? result_.plans_user : result_.plans_item);
  const Visit& visit = bench_.visits.at(reply.id - 1);
  if (!visit.first) return;
  const EvaluationRow& row = bench_.rows[visit.user];
  const std::string& truth = row.candidates[row.true_index];
  const auto found =
      std::find_if(reply.items.begin(), reply.items.end(), [&](auto& i) { return i.id == truth; });
  if (found == reply.items.end()) return;
  // Ties count against the true item.
  const auto better = std::count_if(reply.items.begin(), reply.items.end(), [&](const RankedItem& i) {
    return i.score >= found->score && i.id != truth;
  });
  if (better < 10) {
    result_.recall_at_10 += 1;
    result_.ndcg_at_10 += 1 / std::log2(2.0 + static_cast<double>(better));
  }
}

void Client::wait_until_precomputed() {
  for (;;) {
    host_.post(router_address, door, StatusRequest{1});
    std::unique_lock lock(mutex_);
    const auto is_over = [this] {
      return precompute_ == "done" || precompute_ == "full" || precompute_ == "off";
    };
    if (changed_.wait_for(lock, std::chrono::milliseconds(50), is_over)) return;
  }
}

double percentile(std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto place = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(place, 1, sorted.size()) - 1];
}

BenchRankRun Client::run() {
  Progress progress("requests", bench_.visits.size());
  const Clock::time_point begin = Clock::now();
  {
    std::unique_lock lock(mutex_);
    for (std::uint32_t i = 0; i < bench_.in_flight; ++i) send_next();
    while (finished_ < bench_.visits.size()) {
      changed_.wait(lock);
      progress.at(finished_);
    }
  }
  result_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  result_.requests = finished_;
  result_.qps = static_cast<double>(finished_) / result_.seconds;
  std::sort(latencies_ms_.begin(), latencies_ms_.end());
  result_.p50_ms = percentile(latencies_ms_, 0.50);
  result_.p99_ms = percentile(latencies_ms_, 0.99);
  for (const Visit& visit : bench_.visits) result_.users += visit.first;
  result_.recall_at_10 /= static_cast<double>(result_.users);
  result_.ndcg_at_10 /= static_cast<double>(result_.users);
  if (result_.tokens_total > 0)
    result_.hit_rate = static_cast<double>(result_.tokens_reused) / static_cast<double>(result_.tokens_total);
  return result_;
}

constexpr std::uint64_t pool_bytes_min = 1 << 20;  // of the knob pool.memory

bool keeps_items(const std::string& policy) { return policy != "recompute" && policy != "user"; }

Config config_for(const Config& base, const BenchMemory& memory, const std::string& policy,
                  const std::filesystem::path& folder) {
  Config config = base;
  config.set("node.data_dir", folder.string());
  config.set("router.policy", policy);
  for (const char* knob : {"router.deadline", "router.deadline_max"})
    config.set(knob, "60s");  // a benchmark measures; it does not give up
  config.set("pool.memory", std::to_string(memory.pool_bytes));
  config.set("pool.store_item_blocks", "false");
  config.set("pool.precompute_items", keeps_items(policy) ? "true" : "false");
  config.set("pool.item_share", std::to_string(memory.item_share(policy)));
  return config;
}

void import_into(Box& box, const BenchRank& bench) {
  box.features().import_items(read_items(bench.data, box.vocabulary()));
  std::vector<PutUser> users;
  for (const EvaluationRow& row : bench.rows) users.push_back({0, "", row.user, row.history, {}});
  box.features().import_users(users);
}

}  // namespace

double BenchMemory::item_share(const std::string& policy) const {
  const auto pool = static_cast<double>(std::max<std::uint64_t>(1, pool_bytes));
  const double items = keeps_items(policy) ? static_cast<double>(item_bytes) / pool : 0.0;
  const double kept_from_users = 1.0 - 0.75 * static_cast<double>(user_bytes) / pool;
  return std::clamp(std::max(items, kept_from_users), 0.001, 1.0);
}

BenchMemory bench_memory(const BenchRank& bench, const Config& config) {
  const std::string model = required_text(config, "model.directory");
  const kernels::DecoderConfig shape = kernels::read_decoder_config(model);
  const kernels::Vocabulary vocabulary = read_vocabulary_if_any(model, shape);
  const kernels::KvLayout layout =
      kernels::kv_layout(shape, static_cast<std::uint32_t>(config.integer("pool.page_tokens")),
                         kernels::find_kv_format(config.text("pool.kv_format")).value());
  BenchMemory memory;
  std::map<std::string, std::size_t> tokens_of;
  for (const PutItem& item : read_items(bench.data, vocabulary)) {
    tokens_of[item.item] = item.tokens.size();
    memory.item_bytes += layout.pages_for(item.tokens.size()) * layout.page_bytes();
  }
  for (const Visit& visit : bench.visits) {
    if (!visit.first) continue;
    std::size_t tokens = 1;
    for (const std::string& item : bench.rows[visit.user].history) tokens += tokens_of[item];
    tokens = std::min<std::size_t>(tokens, shape.positions_max);
    memory.user_bytes += layout.pages_for(tokens) * layout.page_bytes();
  }
  memory.item_bytes += 16 * layout.page_bytes();  // the system block
  memory.pool_bytes = std::max(memory.item_bytes + memory.user_bytes / 4, pool_bytes_min);
  return memory;
}

BenchRankRun run_policy(const BenchRank& bench, const Config& base, const BenchMemory& memory,
                        const std::string& policy) {
  const TemporaryFolder folder;
  const Config config = config_for(base, memory, policy, folder.path);
  Box box(config);
  import_into(box, bench);
  MetricRegistry metrics;
  CafHost host(metrics, [](auto&&...) {});
  box.add_to(host);
  Client client(bench, host);
  host.set_door(door, [&](Address, Message answer) { client.deliver(std::move(answer)); });
  host.start();
  client.wait_until_precomputed();
  BenchRankRun run = client.run();
  run.policy = policy;
  return run;
}

}  // namespace troupe::deploy
