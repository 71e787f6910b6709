// Keeps item blocks on the nodes that the assignment of items to nodes names, while items become
// hot and nodes leave, fail or return. Precompute (precompute.h) computes or pulls what is missing;
// a walk is its pass over the whole catalog.
#include <algorithm>
#include <cmath>
#include <utility>

#include "router/precompute/precompute.h"

namespace troupe::router {
namespace {

// A decision of Algorithm 1 is logged if the threshold changed by this factor, once per interval at most.
constexpr double logged_change = 2;
constexpr Duration logged_every{60'000'000};

}  // namespace

void Precompute::note_accesses(Step step, std::span<const ItemView> items, std::uint64_t user_tokens) {
  if (stage_ == Stage::off || !assignment_.planned()) return;
  if (replication_.is_on()) {
    std::uint64_t item_tokens = 0;
    for (const ItemView& item : items) item_tokens += form_.item.size() + item.tokens.size();
    replication_.note(items.size(), item_tokens, user_tokens);
  }
  const std::size_t hot_before = assignment_.hot(), waiting_before = changed_.size();
  for (const ItemView& item : items)
    if (assignment_.touch(item)) refresh(item.copy());
  if (assignment_.hot() != hot_before)
    step.effects.count(Metric::items_hot, static_cast<double>(assignment_.hot()));
  if (changed_.size() > waiting_before) work(step);
}

bool Precompute::makes(Instant now, ItemBlockKind blocks, std::string_view model_version) const {
  const bool on = stage_ == Stage::walking || stage_ == Stage::done;
  const bool stalled = !is_idle() && config_.stalled_after < now - progressed_;
  return on && !stalled && config_.blocks == blocks && names_.model_version() == model_version;
}

bool Precompute::makes_item(std::string_view item) const {
  return !assignment_.planned() || !assignment_.nodes_of(std::string(item)).empty();
}

// Many requests may miss an item before its block is made, so each item is queued once until it is computed
// or nothing is left to compute.
void Precompute::note_missing(Step step, std::span<const ItemView> items) {
  if (stage_ != Stage::done) return;
  if (is_idle()) missed_.clear(), progressed_ = step.now;
  const std::size_t waiting_before = changed_.size();
  for (const ItemView& item : items)
    if (missed_.size() < config_.changed_max && missed_.emplace(item.id).second) refresh(item.copy());
  if (changed_.size() > waiting_before) work(step);
}

void Precompute::review_hot_items(Step step, const placement::UnitCosts& costs, const PullCost& pulls) {
  if (stage_ == Stage::off || !assignment_.planned() || !replication_.is_due()) return;
  const ServingSpeeds speeds{.costs = costs,
                             .pace = mean_pace(),
                             .pulled_tokens_per_s = pulls.tokens_per_s(),
                             .pull_share = pulls.share()};
  if (!replication_.decide(speeds, assignment_.nodes(), assignment_.accesses())) return;
  const std::size_t hot_before = assignment_.hot();
  assignment_.set_hot_count(replication_.decision().threshold.accesses);
  if (assignment_.hot() != hot_before)
    step.effects.count(Metric::items_hot, static_cast<double>(assignment_.hot()));
  log_replication(step);
}

placement::Pace Precompute::mean_pace() const {
  placement::Pace sum;
  for (const NodeId node : workers_.nodes()) {
    const placement::Pace pace = workers_.pace(node);
    sum.us_per_operation += pace.us_per_operation;
    sum.us_per_byte += pace.us_per_byte;
    sum.us_per_pass += pace.us_per_pass;
  }
  return sum * (1.0 / std::max<std::size_t>(1, workers_.nodes().size()));
}

void Precompute::log_replication(Step step) {
  const ReplicationDecision& decision = replication_.decision();
  const double now = decision.hot_share(), before = logged_hot_share_;
  const bool changed =
      before <= 0 || now <= 0 ? now != before : std::max(now / before, before / now) >= logged_change;
  if (!changed || (before >= 0 && step.now - replication_logged_ < logged_every)) return;
  logged_hot_share_ = now;
  replication_logged_ = step.now;
  step.effects.log(LogLevel::info, "hot_items_decided",
                   {{"items", decision.threshold.items},
                    {"accesses", decision.threshold.accesses},
                    {"window", decision.accesses},
                    {"link_tokens_per_s", std::llround(decision.tokens_per_s)},
                    {"link", decision.is_measured ? "measured" : "assumed"}});
}

// Queues an item, so that its block is looked up and brought to its assigned nodes. Computes the
// block's name anew for the model whose blocks are precomputed. The item's own name may belong to
// another model: the process's first one (catalog), the current one (write over HTTP), or the
// user's (request).
void Precompute::refresh(Item item) {
  if (stage_ == Stage::off || changed_.size() >= config_.changed_max || !fits(item)) return;
  become_block(item);
  changed_.push_back(std::move(item));
}

void Precompute::follow_members(Step step, std::set<NodeId> leaving) {
  leaving_ = std::move(leaving);
  capacity_.follow(leaving_);
  std::vector<NodeId> staying = workers_.nodes();
  std::erase_if(staying, [this](NodeId node) { return leaving_.contains(node); });
  assignment_.follow(staying);
  if (refused_plan_) follow_plan(step, refused_plan_);
  std::erase_if(behind_, [&](NodeId node) { return std::ranges::count(staying, node) == 0; });
  reassign(step);
}

// Items may belong to other nodes than before.
void Precompute::reassign(Step step) {
  if (stage_ == Stage::off) return;
  if (stage_ == Stage::walking)
    walk_again(step.now);                // from the beginning: passed items may belong elsewhere now
  walk_due_ = stage_ != Stage::walking;  // a walk that has just restarted is enough
  work(step);
}

void Precompute::read_plan(Step step) {
  if (config_.plan_every.us <= 0 || plan_job_ != 0 || stage_ == Stage::off || !assignment_.planned()) return;
  if (step.now - plan_read_at_ < config_.plan_every) return;
  plan_read_at_ = step.now;
  step.effects.start(plan_job_ = step.next_id++, ReadPlacement{});
}

bool Precompute::on_plan_read(Step step, std::uint64_t job, const JobResult& result) {
  if (job != plan_job_ || plan_job_ == 0) return false;
  plan_job_ = 0;
  const auto* read = std::get_if<PlacementRead>(&result);
  if (!read || (!read->items && read->why.empty())) return true;
  std::string why = read->why;
  if (why.empty()) {
    if (follow_plan(step, std::make_shared<const ItemAssignment>(read->nodes, read->items))) {
      reassign(step);
      return true;
    }
    why = "it is a plan for other nodes than the present workers";
  }
  step.effects.log(LogLevel::warning, "placement_refused",
                   {{"why", why}, {"expected", "a plan that troupe-lab plan wrote for the present workers"}});
  return true;
}

// Returns false if the plan is for other nodes than the present workers. Its file is not read again, so the
// plan is kept and tried again when the members change.
bool Precompute::follow_plan(Step step, std::shared_ptr<const ItemAssignment> plan) {
  if (!assignment_.replace(plan)) {
    refused_plan_ = std::move(plan);
    return false;
  }
  refused_plan_.reset();
  step.effects.log(LogLevel::info, "placement_changed", {{"items", plan->listed()}});
  return true;
}

// A migration is done once all item blocks are where they belong without the leaving nodes. A node that is
// away or takes no work is not waited for, and neither is a walk that no node could take blocks of.
Precompute::MigrationProgress Precompute::migration() const {
  if (stage_ == Stage::off) return {.is_done = true};
  const auto is_awaited = [this](NodeId node) {
    return capacity_.may_take(node, names_.model_version()) && !assignment_.is_away(node);
  };
  const bool walk_awaited = walk_due_ && std::ranges::any_of(workers_.nodes(), is_awaited);
  const bool node_awaited = std::ranges::any_of(behind_, is_awaited);
  MigrationProgress progress{.is_done = is_idle() && !walk_awaited && !node_awaited};
  if (progress.is_done) return progress;
  progress.blocks = missing_.size();
  for (const auto& [id, chunk] : running_) progress.blocks += chunk.items.size();
  progress.items = stage_ == Stage::walking ? walked_ : 0;
  for (const NodeId node : workers_.nodes())
    if (is_awaited(node) && (behind_.contains(node) || capacity_.is_unknown(node)))
      progress.awaited.push_back(node);
  return progress;
}

void Precompute::watch_nodes(Step step) {
  if (stage_ == Stage::off) return;
  for (const NodeId node : workers_.nodes()) {
    const bool alive = workers_.alive(step.now, node);
    if (!assignment_.see(step.now, node, alive)) continue;
    if (alive) {
      behind_.insert(node);  // gets its missing item blocks once it accepts work
    } else {
      walk_due_ = true;  // other nodes stand in for it and lack its blocks
    }
    step.effects.log(LogLevel::info, alive ? "item_blocks_returned" : "item_blocks_reassigned",
                     {{"node", node}});
  }
}

}  // namespace troupe::router
