// Runs the same ranking requests under several policies, each on a fresh single node whose item
// blocks are precomputed before the clock starts.
#include "deploy/lab/bench/bench_rank.h"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "deploy/lab/bench/bench_trace.h"
#include "deploy/lab/bench/resident_memory.h"
#include "deploy/node/local_node.h"
#include "deploy/node/prompt_file.h"
#include "deploy/node/served_model.h"
#include "router/request/allowed_plans.h"
#include "runtime/network/caf_host.h"

namespace troupe::deploy {

namespace {

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

constexpr std::uint64_t pool_bytes_min = 1 << 20;  // minimum of the setting pool.memory

// The model that a configuration names, without its weights.
struct DescribedModel : ServedModel {
  DescribedModel(const Config& of, const ModelFamilies& families) {
    config = of;
    describe_model(*this, families);
  }
};

// Returns true if requests that name nothing may read blocks of items: a plan that the policy may
// choose under this form has them. False for a policy that the form does not allow, which the node
// refuses.
bool reads_item_blocks(const std::string& name, const PromptForm& form, const RouterSettings& settings) {
  const std::optional<router::Policy> policy = router::find_policy(name);
  if (!policy || !(*policy)->reuses || form.generates() || !router::why_not_usual(*policy, form).empty())
    return false;
  const bool approximate = !(*policy)->weighs || settings.approximate > 0;
  return std::ranges::any_of(router::allowed_plans(*policy, Arrangement::unnamed, form, approximate),
                             [](const router::PlanKind* plan) {
                               return plan->arrangement == Arrangement::item_first || plan->approximate;
                             });
}

std::shared_ptr<FreshCandidates> fresh_candidates(const BenchRank& bench,
                                                  const kernels::Vocabulary& vocabulary) {
  if (bench.fresh == 0) return nullptr;
  std::vector<std::string> catalog;
  for (PutItem& item : read_items(bench.data, vocabulary)) catalog.push_back(std::move(item.item));
  return std::make_shared<FreshCandidates>(catalog, bench.rows, bench.fresh, bench.seed);
}

// Gives the request of a visitor the history of its row.
void take_own_history(const EvaluationRow& row, RankRequest& request) {
  request.history = row.history;
  request.event_features = row.features;
  request.request_timestamp = row.request_timestamp;
  request.own_history = true;
}

// Sends the row of each visit and judges a user's first visit. With drawn candidates nothing is judged,
// because no true item is known.
Questions questions_of_visits(const BenchRank& bench, std::shared_ptr<FreshCandidates> fresh) {
  return [&bench, fresh = std::move(fresh), at = std::size_t{0}](Question& question) mutable {
    if (at == bench.visits.size()) return false;
    const Visit& visit = bench.visits[at++];
    const EvaluationRow& row = bench.rows[visit.user];
    RankRequest request{.user = row.user,
                        .candidates = fresh ? fresh->next() : bench.rows[visit.candidates].candidates};
    if (row.user.empty()) take_own_history(row, request);
    question.request = std::move(request);
    question.truth = visit.first && !fresh ? row.candidates[row.true_index] : "";
    return true;
  };
}

void import_users(LocalNode& node, const BenchRank& bench) {
  std::vector<PutUser> users;
  for (const EvaluationRow& row : bench.rows)
    if (!row.user.empty()) users.push_back({0, "", row.user, row.history, {}});
  node.features().import_users(users);
}

// Counts the blocks that are found and computed from its construction on, for the requests alone.
class BlockCounts {
 public:
  explicit BlockCounts(const MetricRegistry& metrics) : metrics_(metrics), before_(read()) {}
  void copy_to(BenchRankRun& run) const {
    const Counts now = read();
    std::uint64_t* const fields[] = {&run.user_blocks_hit, &run.user_blocks_computed, &run.item_blocks_hit,
                                     &run.item_blocks_computed};
    for (std::size_t i = 0; i < now.size(); ++i) *fields[i] = static_cast<std::uint64_t>(now[i] - before_[i]);
  }

 private:
  using Counts = std::array<double, 4>;
  Counts read() const {
    return {metrics_.value(Metric::blocks_hit_user), metrics_.value(Metric::blocks_computed_user),
            metrics_.value(Metric::blocks_hit_item), metrics_.value(Metric::blocks_computed_item)};
  }
  const MetricRegistry& metrics_;
  Counts before_;
};

// Returns the number of profile tokens of each user with a request.
std::vector<std::uint64_t> profile_tokens(const BenchRank& bench,
                                          const std::map<std::string, std::size_t>& tokens_of) {
  if (!bench.trace.empty()) {
    const auto known = [&](const std::string& item) {
      const auto at = tokens_of.find(item);
      return at == tokens_of.end() ? 0 : at->second;
    };
    return total_trace(bench.trace, bench.requests_max, known, bench.speed).user_tokens;
  }
  std::vector<std::uint64_t> tokens;
  for (const Visit& visit : bench.visits) {
    if (!visit.first) continue;
    tokens.push_back(0);
    for (const std::string& item : bench.rows[visit.user].history)
      if (const auto at = tokens_of.find(item); at != tokens_of.end()) tokens.back() += at->second;
  }
  return tokens;
}

}  // namespace

double BenchMemory::item_share(bool keeps_items) const {
  if (split) return *split;
  const auto pool = static_cast<double>(std::max<std::uint64_t>(1, pool_bytes));
  const double items = keeps_items ? static_cast<double>(item_bytes) / pool : 0.0;
  const double kept_from_users = 1.0 - 0.75 * static_cast<double>(user_bytes) / pool;
  return std::clamp(std::max(items, kept_from_users), 0.001, 1.0);
}

BenchMemory bench_memory(const BenchRank& bench, const Config& config) {
  const DescribedModel model(config, bench.families);
  const kernels::PageLayout& layout = model.facts.layout;
  const std::size_t mark_tokens = model.prompt.item.size();
  BenchMemory memory;
  std::map<std::string, std::size_t> tokens_of;
  for (const PutItem& item : read_items(bench.data, model.vocabulary)) {
    tokens_of[item.item] = item.tokens.size();
    if (!item.tokens.empty())
      memory.item_bytes += layout.pages_for(mark_tokens + item.tokens.size()) * layout.page_bytes();
  }
  for (const std::uint64_t tokens : profile_tokens(bench, tokens_of))
    memory.user_bytes += layout.pages_for(std::min<std::size_t>(
                             1 + tokens, static_cast<std::size_t>(model.facts.limits.positions_max))) *
                         layout.page_bytes();
  memory.item_bytes += 16 * layout.page_bytes();  // the system block
  memory.pool_bytes = std::max(memory.item_bytes + memory.user_bytes / 4, pool_bytes_min);
  return memory;
}

Config bench_config(const Config& base, const BenchMemory& memory, const std::string& policy,
                    const ModelFamilies& families) {
  Config config = base;
  config.router.policy = policy;
  config.router.deadline = config.router.deadline_max = {60'000'000};  // long, to measure slow requests, too
  config.set("pool.memory", std::to_string(memory.pool_bytes));
  config.pool.store_item_blocks = false;
  const bool keeps_items = reads_item_blocks(policy, DescribedModel(config, families).prompt, config.router);
  config.pool.precompute_items = keeps_items;
  config.set("pool.item_share", std::to_string(memory.item_share(keeps_items)));
  return config;
}

BenchRankRun run_policy(const BenchRank& bench, const Config& base, const BenchMemory& memory,
                        const std::string& policy) {
  const TemporaryFolder folder;
  const std::uint64_t resident_before = bench.keep_answers ? resident_bytes() : 0;
  Config config = bench_config(base, memory, policy, bench.families);
  config.node.data_dir = folder.path.string();
  LocalNode node(config, {}, nullptr, bench.families);
  node.features().import_items(read_items(bench.data, node.vocabulary()));
  std::optional<TraceQuestions> trace;
  Questions questions;
  if (bench.trace.empty()) {
    import_users(node, bench);
    questions = questions_of_visits(bench, fresh_candidates(bench, node.vocabulary()));
  } else {
    trace.emplace(
        bench.trace, bench.requests_max, config.router.history_events_max,
        [&node](const std::vector<PutUser>& profiles) { node.features().import_users(profiles); },
        node.prompt().searches_items ? std::nullopt : std::optional(node.prompt().generates()));
    questions = [&trace](Question& question) { return trace->next(question); };
  }
  MetricRegistry metrics;
  CafHost host(metrics, [](auto&&...) {});
  node.add_to(host);
  BenchClient client(host, std::move(questions),
                     bench.trace.empty() ? bench.visits.size() : bench.requests_max, bench.profile);
  if (bench.keep_answers) client.keep_answers();
  host.set_server(LocalNode::address(Role::server),
                  [&](Address, Message answer) { client.deliver(std::move(answer)); });
  host.start();
  client.wait_until_precomputed();
  const BlockCounts blocks(metrics);
  BenchRankRun run = bench.speed > 0 ? client.run_open(bench.speed) : client.run_closed(bench.in_flight);
  blocks.copy_to(run);
  run.users = trace ? trace->users() : run.judged;
  run.policy = policy;
  if (bench.keep_answers)
    if (const std::uint64_t now = resident_bytes(); now > resident_before)
      run.resident_bytes = now - resident_before;
  return run;
}

}  // namespace troupe::deploy
