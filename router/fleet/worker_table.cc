// Tracks which inference workers are alive, how busy they are and how fast they answer. From this
// it predicts where a plan would finish first, and chooses a worker for it.
#include "router/fleet/worker_table.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/hash.h"
#include "placement/assignment/homes.h"

namespace troupe::router {

using placement::Pace;
using placement::Work;

namespace {

constexpr double share_of_new = 0.2;  // weight of a new value in moving averages
constexpr double ratio_most = 100;    // limits the effect of one observation
constexpr std::size_t draws = 6, least_loaded = 2;

bool contains(std::span<const NodeId> nodes, NodeId node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

}  // namespace

WorkerTable::WorkerTable(WorkerTableConfig config, std::vector<NodeId> nodes)
    : config_(config), silence_{config.heartbeat.us * 3}, nodes_(std::move(nodes)) {
  std::sort(nodes_.begin(), nodes_.end());
  nodes_.erase(std::unique(nodes_.begin(), nodes_.end()), nodes_.end());
  for (const NodeId node : nodes_) rows_.push_back({.node = node, .hash = spread(node)});
}

const WorkerTable::Row* WorkerTable::find(NodeId node) const {
  const auto at = std::lower_bound(rows_.begin(), rows_.end(), node,
                                   [](const Row& row, NodeId wanted) { return row.node < wanted; });
  return at != rows_.end() && at->node == node ? &*at : nullptr;
}

WorkerTable::Row* WorkerTable::find(NodeId node) {
  return const_cast<Row*>(static_cast<const WorkerTable*>(this)->find(node));
}

// ---- what is heard ----

void WorkerTable::start(Instant now) {
  for (Row& row : rows_) row.heard = now;
}

void WorkerTable::forgive_stall(Duration stall) {
  for (Row& row : rows_) row.heard = row.heard + stall;
}

void WorkerTable::follow(std::vector<NodeId> nodes) {
  for (Row& row : rows_)
    if (!contains(nodes, row.node)) row.gone = row.lost = true;
  for (const NodeId node : nodes)
    if (!find(node)) rows_.push_back({.node = node, .hash = spread(node), .lost = true});
  std::ranges::sort(rows_, {}, &Row::node);
  std::ranges::sort(nodes);
  nodes_ = std::move(nodes);
}

WorkerTable::News WorkerTable::hear(Instant now, NodeId node, const Heartbeat& heartbeat) {
  Row* row = find(node);
  if (!row || row->gone || heartbeat.incarnation == 0 || heartbeat.incarnation < row->process)
    return News::ignored;
  const bool restarted = row->process != 0 && heartbeat.incarnation != row->process;
  // A repeated or overtaken heartbeat: its content is outdated. Older programs do not number
  // heartbeats.
  const bool numbered = heartbeat.sequence != 0;
  if (numbered && heartbeat.incarnation == row->process && heartbeat.sequence <= row->last.sequence)
    return News::ignored;
  const std::uint64_t beats = row->beats + 1;
  if (restarted) *row = {.node = node, .hash = row->hash, .life = ++lives_, .waiting_us = row->waiting_us};
  row->process = heartbeat.incarnation;
  row->heard = now;
  row->lost = false;
  row->last = heartbeat;
  row->beats = beats;
  row->sent = {};          // the heartbeat counts it
  freed_.push_back(node);  // it may have more executor slots, or be faster
  return restarted ? News::restarted : News::known;
}

bool WorkerTable::lose(NodeId node) {
  Row* row = find(node);
  return row && !std::exchange(row->lost, true);
}

std::vector<NodeId> WorkerTable::tick(Instant now) {
  std::vector<NodeId> silent;
  std::vector<double> slowness;
  for (Row& row : rows_) {
    if (!row.lost && !alive(now, row)) {
      row.lost = true;
      silent.push_back(row.node);
    }
    if (!row.lost) slowness.push_back(row.observed);
  }
  // Median of the others, as seen from a worker that is slower than most.
  reference_ = 0;
  if (slowness.size() < 2) return silent;
  const auto middle = slowness.begin() + static_cast<std::ptrdiff_t>((slowness.size() - 2) / 2);
  std::nth_element(slowness.begin(), middle, slowness.end());
  reference_ = *middle;
  return silent;
}

// ---- what is known ----

bool WorkerTable::alive(Instant now, const Row& row) const {
  return !row.lost && (row.node == config_.own || now < row.heard + silence_);
}

// Adds one heartbeat for each period since the last one, and one more for clock differences.
std::uint64_t WorkerTable::proof_of_life(Instant now, NodeId node) const {
  const Row* row = find(node);
  if (!row) return 0;
  const std::int64_t silent_us = std::max<std::int64_t>(0, (now - row->heard).us);
  return row->last.sequence + static_cast<std::uint64_t>(silent_us / config_.heartbeat.us) + 2;
}

bool WorkerTable::alive(Instant now, NodeId node) const {
  const Row* row = find(node);
  return row && alive(now, *row);
}

bool WorkerTable::usable(Instant now, const Row& row, std::string_view model) const {
  if (!alive(now, row) || row.last.draining) return false;
  return row.process == 0 ||
         std::find(row.last.models.begin(), row.last.models.end(), model) != row.last.models.end();
}

bool WorkerTable::usable(Instant now, NodeId node, std::string_view model) const {
  const Row* row = find(node);
  return row && usable(now, *row, model);
}

bool WorkerTable::lacks(NodeId node, std::string_view model) const {
  const Row* row = find(node);
  return row && row->process != 0 && std::ranges::find(row->last.models, model) == row->last.models.end();
}

bool WorkerTable::overdue(Instant now, const Row& row) const {
  return row.process != 0 && now.us > row.heard.us + config_.heartbeat.us * 3 / 2;
}

bool WorkerTable::slow(const Row& row) const {
  return reference_ > 0 && row.slowness > config_.slow_factor * reference_;
}

bool WorkerTable::slow(NodeId node) const {
  const Row* row = find(node);
  return row && slow(*row);
}

bool WorkerTable::avoided(Instant now, NodeId node) const {
  const Row* row = find(node);
  return row && avoided(now, *row);
}

Duration WorkerTable::silent_for(Instant now, NodeId node) const {
  const Row* row = find(node);
  return row ? now - row->heard : Duration{};
}

Pace WorkerTable::pace(const Row& row) const {
  const Pace own{row.last.us_per_operation, row.last.us_per_byte, row.last.us_per_pass};
  return own.known() ? own : config_.pace;
}

// The heartbeat ages: the worker has worked off part of its backlog since, more slowly if it is
// slow.
double WorkerTable::sent_wait_us(Instant now, const Row& row) const {
  const double slots = this->slots(row);
  const double running = std::min<double>(row.last.slots_busy, slots) / 2;
  const Work waiting{row.last.operations_waiting, row.last.bytes_waiting, row.last.passes_waiting};
  const Pace pace = this->pace(row);
  const double backlog_us = pace.us(waiting + plan_average_ * running) / slots;
  const double since_us = static_cast<double>((now - row.heard).us) / std::max(1.0, row.slowness);
  return std::max(0.0, backlog_us - since_us) + pace.us(row.sent) / slots;
}

double WorkerTable::wait_us(Instant now, const Row& row) const {
  return sent_wait_us(now, row) + row.waiting_us / slots(row);
}

double WorkerTable::wait_us(Instant now, NodeId node) const {
  const Row* row = find(node);
  return row ? wait_us(now, *row) : 0;
}

double WorkerTable::predicted_us(Instant now, NodeId node, const Work& work, double passes_us) const {
  const Row* row = find(node);
  return row ? wait_us(now, *row) - passes_us / slots(*row) + pace(*row).us(work) : 0;
}

Pace WorkerTable::pace(NodeId node) const {
  const Row* row = find(node);
  return row ? pace(*row) : config_.pace;
}

const Heartbeat* WorkerTable::last_heard(NodeId node) const {
  const Row* row = find(node);
  return row ? &row->last : nullptr;
}

double WorkerTable::slowness(NodeId node) const {
  const Row* row = find(node);
  return row ? row->slowness : 1;
}

double WorkerTable::done_us(Instant now, const Row& row, const Option& option) const {
  const double predicted = wait_us(now, row) - option.passes_us / slots(row) + pace(row).us(option.work);
  return predicted * row.slowness;
}

bool WorkerTable::any_usable(Instant now, std::string_view model) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) { return usable(now, row, model); });
}

bool WorkerTable::all_heard() const {
  return std::ranges::all_of(rows_, [](const Row& row) { return row.gone || row.process != 0; });
}

bool WorkerTable::any_has(std::string_view model) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) {
    const auto& models = row.last.models;
    return row.process != 0 && !row.lost && std::find(models.begin(), models.end(), model) != models.end();
  });
}

std::size_t WorkerTable::alive_count(Instant now) const {
  return static_cast<std::size_t>(
      std::count_if(rows_.begin(), rows_.end(), [&](const Row& row) { return alive(now, row); }));
}

double WorkerTable::live_slots(Instant now) const {
  double sum = 0;
  for (const Row& row : rows_) sum += alive(now, row) ? slots(row) : 0;
  return std::max(1.0, sum);
}

bool WorkerTable::all_have(Instant now, std::string_view model) const {
  bool some = false;
  std::size_t heard = 0;
  for (const Row& row : rows_) {
    if (alive(now, row) && row.process != 0) ++heard;
    if (!alive(now, row) || row.last.draining) continue;
    if (row.process == 0 || !usable(now, row, model)) return false;
    some = true;
  }
  return some && 2 * heard >= nodes_.size();  // a router that hears only a few workers cannot judge for all
}

std::string WorkerTable::load_refusal(Instant now, std::uint64_t epoch, std::string_view model) const {
  if (model.empty()) return "";
  for (const Row& row : rows_)
    if (alive(now, row) && !row.last.draining && row.last.versions_epoch == epoch &&
        row.last.refused_model == model)
      return "node " + std::to_string(row.node) + ": " + row.last.refused_why;
  return "";
}

bool WorkerTable::all_follow(Instant now, std::uint64_t epoch) const {
  return std::all_of(rows_.begin(), rows_.end(),
                     [&](const Row& row) { return !alive(now, row) || row.last.versions_epoch >= epoch; });
}

// ---- where a plan goes ----

const WorkerTable::Row* WorkerTable::home_of(Instant now, const Ask& ask, bool may_be_slow) const {
  const Row* home = nullptr;
  std::uint64_t highest = 0;
  for (const Row& row : rows_) {
    const std::uint64_t rank = placement::home_rank(ask.home, row.hash);
    if (home && rank <= highest) continue;
    if (!usable(now, row, ask.model) || (!may_be_slow && shed(now, row)) || contains(ask.tried, row.node))
      continue;
    home = &row;
    highest = rank;
  }
  return home;
}

// Looks at all workers if there are few, else at a few random ones. If those are not suitable,
// continues with the following ones from a random position.
std::vector<const WorkerTable::Row*> WorkerTable::draw(Instant now, const Ask& ask, bool may_be_slow,
                                                       const Row* home) const {
  std::vector<const Row*> drawn;
  if (nodes_.empty()) return drawn;
  const bool all = nodes_.size() <= draws;
  const auto look = [&](std::size_t place) {
    const Row& row = *find(nodes_[place]);  // nodes_ has only members; rows_ also has removed nodes
    const bool fit = &row != home && usable(now, row, ask.model) && (may_be_slow || !shed(now, row)) &&
                     !contains(ask.tried, row.node);
    if (fit && std::find(drawn.begin(), drawn.end(), &row) == drawn.end()) drawn.push_back(&row);
  };
  for (std::size_t i = 0; i < (all ? nodes_.size() : draws); ++i)
    look(all ? i : spread(ask.draw + i) % nodes_.size());
  if (all || !drawn.empty()) return drawn;
  const std::size_t first = spread(ask.draw + draws) % nodes_.size();
  for (std::size_t i = 0; i < nodes_.size() && drawn.size() < least_loaded; ++i)
    look((first + i) % nodes_.size());
  return drawn;
}

std::vector<NodeId> WorkerTable::candidates(Instant now, const Ask& ask) const {
  for (const bool may_be_slow : {false, true}) {
    const Row* home = home_of(now, ask, may_be_slow);
    if (!home) continue;
    std::vector<const Row*> drawn = draw(now, ask, may_be_slow, home);
    std::sort(drawn.begin(), drawn.end(), [&](const Row* a, const Row* b) {
      const double wait_a = wait_us(now, *a), wait_b = wait_us(now, *b);
      return wait_a != wait_b ? wait_a < wait_b : a->node < b->node;
    });
    std::vector<NodeId> nodes{home->node};
    for (std::size_t i = 0; i < std::min(drawn.size(), least_loaded); ++i) nodes.push_back(drawn[i]->node);
    return nodes;
  }
  return {};
}

// A queue that takes as long as the request itself gives 0.5.
double WorkerTable::load(Instant now, const Row& row, const Option& option) const {
  const double wait = wait_us(now, row) - option.passes_us / slots(row), time = pace(row).us(option.whole);
  return wait > 0 ? wait / (wait + time) : 0;
}

double WorkerTable::score(Instant now, const Rule& rule, const Row& row, const Option& option) const {
  if (rule.routing.by == Routing::By::earliest) return 0;
  const double load = this->load(now, row, option);
  if (rule.routing.by == Routing::By::joint)
    return joint_score(rule.costs, {option.hit, option.rows_found, load, option.last});
  return routing_score(rule.routing, option.hit, load);
}

bool WorkerTable::goes_before(Instant now, const Rule& rule, const Row& a, const Option& option_a,
                              const Row& b, const Option& option_b, NodeId home) const {
  const double score_a = score(now, rule, a, option_a), score_b = score(now, rule, b, option_b);
  if (score_a != score_b) return score_a > score_b;
  const double done_a = done_us(now, a, option_a), done_b = done_us(now, b, option_b);
  if (done_a != done_b) return done_a < done_b;
  if (a.node == home || b.node == home) return a.node == home;
  return a.node < b.node;
}

// Averages over the workers, so that all use the same weights.
MissCosts WorkerTable::costs_of(std::span<const Option> options) const {
  MissCosts costs;
  for (const Option& option : options) {
    const placement::Pace pace = this->pace(option.node);
    const double whole = pace.us(option.whole);
    costs.kv += std::max(0.0, whole - pace.us(option.kept));
    costs.rows += option.rows_us;
    costs.load += whole;
  }
  return costs;
}

const WorkerTable::Option* WorkerTable::best_of(Instant now, std::span<const Option> options,
                                                std::string_view model, const Rule& rule) const {
  const Option* best = nullptr;
  const Row* best_row = nullptr;
  for (const Option& option : options) {
    const Row* row = find(option.node);
    if (!row || !usable(now, *row, model)) continue;
    const bool better = !best_row || avoided(now, *row) < avoided(now, *best_row) ||
                        (avoided(now, *row) == avoided(now, *best_row) &&
                         goes_before(now, rule, *row, option, *best_row, *best, options.front().node));
    if (!better) continue;
    best = &option;
    best_row = row;
  }
  return best;
}

std::optional<WorkerTable::Option> WorkerTable::choose(Instant now, std::span<const Option> options,
                                                       std::string_view model, bool may_probe) {
  for (const Option& option : options) {
    Row* row = find(option.node);
    if (!may_probe || !row || !usable(now, *row, model) || !slow(*row) || now < row->probe_at) continue;
    row->probe_at = now + Duration{config_.heartbeat.us * row->probe_gap};
    row->probe_gap = std::min(row->probe_gap * 2, config_.probe_gap_max);
    return option;
  }
  const bool joint = config_.routing.by == Routing::By::joint;
  const Option* best =
      best_of(now, options, model, {config_.routing, joint ? costs_of(options) : MissCosts{}});
  if (!best) return std::nullopt;
  const auto too_busy = [&](const Option& option) {
    return load(now, *find(option.node), option) > too_busy_load;
  };
  if (joint && too_busy(*best)) {
    // If the least loaded worker is too busy as well, the best score stays: leaving it would lose what its
    // node holds and gain no idle worker.
    const Option* idlest = best_of(now, options, model, {{Routing::By::load}, {}});
    if (!too_busy(*idlest)) best = idlest;
  }
  return *best;
}

Ticket WorkerTable::send(Instant now, const Option& option) {
  Row* row = find(option.node);
  TROUPE_CHECK(row, "a plan is sent to a worker of the table");
  const double predicted = sent_wait_us(now, *row) + pace(*row).us(option.work);
  Work share = option.work;
  share -= config_.pass;  // plans that run together share one pass
  const double window_us = pace(*row).us(share);
  row->sent += option.work;
  ++row->open;
  row->open_us += window_us;
  plan_average_ = plan_average_ * (1 - share_of_new) + option.work * share_of_new;
  return {option.node, row->process, row->beats, option.work, predicted, now, row->life, window_us};
}

void WorkerTable::enqueue(NodeId node, double waiting_us) {
  if (Row* row = find(node)) row->waiting_us = waiting_us;
}

double WorkerTable::slots(NodeId node) const {
  const Row* row = find(node);
  return row ? slots(*row) : 1;
}

// Allows one plan more than executor slots: a free slot finds work at once and does not wait for a
// message round trip.
bool WorkerTable::has_capacity(NodeId node) const {
  const Row* row = find(node);
  if (!row) return false;
  const double window_us =
      std::max(static_cast<double>(config_.window.us), config_.window_passes * pace(*row).us(config_.pass));
  return row->open <= slots(*row) || row->open_us < slots(*row) * window_us;
}

void WorkerTable::end(Row& row, Ticket& ticket) {
  if (!std::exchange(ticket.open, false)) return;
  if (row.process == ticket.process && row.beats == ticket.beat) row.sent -= ticket.work;
  if (row.life != ticket.life) return;  // the row was reset since
  row.open -= std::min(row.open, 1U);
  row.open_us = row.open > 0 ? std::max(0.0, row.open_us - ticket.window_us) : 0;
  freed_.push_back(row.node);
}

void WorkerTable::forget(Ticket& ticket) {
  if (Row* row = find(ticket.node)) end(*row, ticket);
}

std::optional<double> WorkerTable::finish(Instant now, Ticket& ticket) {
  Row* row = find(ticket.node);
  if (!row) return std::nullopt;
  end(*row, ticket);
  // sent to an earlier process
  if (row->process != ticket.process && ticket.process != 0) return std::nullopt;
  const double allowance = static_cast<double>(config_.allowance.us);
  const double observed = static_cast<double>((now - ticket.sent).us);
  judge(now, *row, (observed + allowance) / (ticket.predicted_us + allowance));
  if (ticket.predicted_us <= 0) return std::nullopt;
  return observed / ticket.predicted_us;
}

void WorkerTable::time_out(Instant now, const Ticket& ticket) {
  if (static_cast<double>((now - ticket.sent).us) > config_.slow_factor * ticket.predicted_us)
    fail(now, ticket);
}

void WorkerTable::fail(Instant now, const Ticket& ticket) {
  Row* row = find(ticket.node);
  if (!row || (row->process != ticket.process && ticket.process != 0)) return;
  const double slow_now = std::min(config_.slow_factor * std::max(1.0, reference_) * 1.5, ratio_most);
  if (row->slowness < slow_now) row->slowness = slow_now;
  row->probe_at = std::max(row->probe_at, now + Duration{config_.heartbeat.us * row->probe_gap});
}

void WorkerTable::judge(Instant now, Row& row, double ratio) {
  const bool was_slow = slow(row);
  ratio = std::min(ratio, ratio_most);
  row.slowness += (ratio - row.slowness) * share_of_new;
  row.observed += (ratio - row.observed) * share_of_new;
  if (!slow(row)) {
    row.probe_gap = 1;
  } else if (!was_slow) {
    row.probe_at = now + config_.heartbeat;
  }
}

}  // namespace troupe::router
