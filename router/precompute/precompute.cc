// Computes item blocks in the background before requests need them. It walks the whole catalog,
// asks the index which blocks are missing, and sends those to workers in small chunks.
#include "router/precompute/precompute.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe::router {
namespace {

// Blame added to an item. A failure with it (a lost worker or a refusal) adds half of the maximum.
// A silence adds less, because a message may have been lost.
constexpr std::uint32_t blame_silent = 1, blame_failed = 3;
// Chunks after the walk of which nothing is kept until the item area counts as full. One may be due to a
// silent KV-cache worker.
constexpr std::uint32_t unkept_max = 2;

}  // namespace

Precompute::Precompute(PrecomputeConfig config, const WorkerTable& workers, const LeaderView& leader,
                       PromptForm form, NameContext names, std::shared_ptr<const ItemAssignment> places)
    : config_(config),
      workers_(workers),
      leader_(leader),
      form_(std::move(form)),
      names_(form_, std::move(names)),
      assignment_(config_.refresh, std::move(places)),
      replication_(config_.refresh.replication, config_.refresh.window),
      capacity_(workers_, config_.asked_max),
      missing_(assignment_, config_.chunk_tokens, config_.blamed_max),
      renamed_(config_.blocks != ItemBlockKind::prefix || !form_.item.empty()) {}

std::string_view Precompute::state(Instant now) const {
  if (stage_ == Stage::off) return "off";
  if (stage_ == Stage::full) return "full";
  if (is_done(now)) return "done";
  return capacity_.some_ready() ? "running" : "waiting";
}

// A node that was not ready when its blocks were looked up gets them in another walk. A dead node is
// not waited for.
bool Precompute::is_done(Instant now) const {
  return stage_ == Stage::done && !walk_due_ && std::ranges::none_of(behind_, [&](NodeId node) {
           return workers_.alive(now, node) && capacity_.may_take(node, names_.model_version());
         });
}

void Precompute::log_done(Step step) {
  if (done_logged_ || !is_done(step.now)) return;
  done_logged_ = true;
  step.effects.log(LogLevel::info, "precompute_done", {{"items", items_precomputed_}});
}

bool Precompute::is_idle() const {
  return stage_ != Stage::walking && !lookup_ && changed_.empty() && missing_.empty() && running_.empty();
}

void Precompute::start(Step step) {
  if (config_.blocks == ItemBlockKind::none)
    return step.effects.log(
        LogLevel::info, "precompute_off",
        {{"why", "router.policy looks up no item blocks, or pool.precompute_items is off"}});
  stage_ = Stage::walking;
  progressed_ = step.now;
  on_timer(step);
}

void Precompute::on_timer(Step step) {
  if (is_idle()) progressed_ = step.now;
  watch_nodes(step);
  read_plan(step);
  capacity_.ask(step);  // also after the walk: a restarted node must be ready before the next one
  // the index is silent: request all of them; existing blocks are not rewritten
  if (lookup_ && step.now >= lookup_->deadline) {
    want_all(step.now, lookup_->items);
    lookup_.reset();
  }
  for (auto at = running_.begin(); at != running_.end();) {
    const bool overdue = step.now >= at->second.deadline;
    if (overdue) blame(step, at->second, blame_silent, "no answer");
    at = overdue ? running_.erase(at) : std::next(at);
  }
  work(step);
  log_done(step);
  step.effects.set_timer(precompute_timer, step.now + config_.poll);
}

void Precompute::add(Step step, Item item) {
  drop(item.id);
  missing_.clear_blame(item.id);  // its content is new
  refresh(std::move(item));
  work(step);
}

void Precompute::drop(const std::string& item) {
  std::erase_if(changed_, [&](const Item& other) { return other.id == item; });
  missed_.erase(item);
  missing_.drop(item);
}

// With another model all blocks have other names, so all are missing again. Another catalog has
// other items.
void Precompute::follow(Step step, const std::string& model_version, const std::string& catalog_version) {
  if (model_version == names_.model_version() && catalog_version == catalog_version_) return;
  renamed_ = renamed_ || model_version != names_.model_version();
  names_ = BlockNames(form_, {model_version, names_.context().layout_version});
  catalog_version_ = catalog_version;
  if (stage_ == Stage::off) return;
  capacity_.renew();
  running_.clear();
  missing_.clear_all_blame();
  walk_again(step.now);
  work(step);
}

// Nodes that are not ready stay behind: the index may still name their blocks of before a restart.
void Precompute::walk_again(Instant now) {
  stage_ = Stage::walking;
  walk_due_ = false;
  done_logged_ = false;
  walked_ = 0;
  unkept_ = 0;
  last_listed_ = false;
  list_is_stale_ = list_job_ != 0;
  lookup_.reset();
  changed_.clear();  // the walk will find them
  missed_.clear();
  missing_.clear();
  std::erase_if(behind_, [&](NodeId node) { return capacity_.is_ready(now, node, names_.model_version()); });
}

void Precompute::lose(Step step, std::span<const NodeId> nodes) {
  if (nodes.empty()) return;
  for (const NodeId node : nodes) {
    capacity_.lose(node);
    if (capacity_.has(node)) behind_.insert(node);  // its blocks may be gone
  }
  for (auto at = running_.begin(); at != running_.end();) {
    const bool there = std::find(nodes.begin(), nodes.end(), at->second.node) != nodes.end();
    if (there) blame_loss(step, at->second);
    at = there ? running_.erase(at) : std::next(at);
  }
  work(step);
}

bool Precompute::fits(const Item& item) const {
  return !item.tokens.empty() &&
         form_.system.size() + form_.item.size() + item.tokens.size() <= form_.positions_max;
}

// Gives the item the tokens and the name of its block.
void Precompute::become_block(Item& item) const {
  item.tokens = item_block_tokens(config_.blocks, form_, item.tokens);
  item.block = item_block_name(config_.blocks, form_, names_, item.tokens);
}

// ---- capacity of nodes ----

// Changed items are also tried on nodes that were full.
bool Precompute::takes_chunks(Instant now, NodeId node, bool refreshed) const {
  return capacity_.takes(now, node, names_.model_version(), stage_ == Stage::walking && !refreshed);
}

bool Precompute::may_catch_up(Instant now) const {
  return now >= catch_up_from_ && std::ranges::any_of(behind_, [&](NodeId node) {
           return capacity_.is_ready(now, node, names_.model_version());
         });
}

// Returns the node for the first missing items that can go somewhere now. Items of a node whose
// readiness is being asked move behind the others. Items of a node that takes nothing are left out.
NodeId Precompute::next_chunk(Instant now) {
  for (std::size_t i = capacity_.size() + 1; i > 0 && !missing_.empty(); --i) {
    const NodeId node = missing_.front().node;
    if (node == 0) return capacity_.next(now, names_.model_version(), stage_ == Stage::walking);
    if (takes_chunks(now, node, missing_.front().refreshed)) return node;
    if (!capacity_.is_asked_again(now, node, names_.model_version())) {
      leave_out(node, missing_.front().refreshed);
    } else if (!missing_.put_node_behind(node)) {
      return 0;
    }
  }
  return 0;
}

void Precompute::leave_out(NodeId node, bool refreshed) {
  missing_.leave_out(node, refreshed);
  behind_.insert(node);
}

// ---- order of work: compute missing items, look up changed ones, continue the walk ----

void Precompute::work(Step step) {
  if (stage_ == Stage::off || step.now < paused_until_) return;
  while (may_start()) {
    const NodeId node = next_chunk(step.now);
    if (node == 0 && !missing_.empty()) return;
    if (node != 0 && !may_start()) return;  // other items are in front now
    if (node != 0) compute_chunk(step, node);
  }
  if (!missing_.empty() || lookup_) return;
  if (stage_ == Stage::walking && !capacity_.some_ready()) return;
  if (!changed_.empty()) {
    const std::size_t count = std::min<std::size_t>(changed_.size(), config_.page_items);
    const auto end = changed_.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<Wanted> items;
    for (auto item = changed_.begin(); item != end; ++item) {
      const bool refreshed = assignment_.planned() && !missed_.contains(item->id);
      items.push_back({.item = std::move(*item), .refreshed = refreshed});
    }
    changed_.erase(changed_.begin(), end);
    return look_up(step, std::move(items));
  }
  if (stage_ != Stage::walking && running_.empty() &&
      ((walk_due_ && capacity_.some_ready()) || may_catch_up(step.now)))
    walk_again(step.now);
  if (stage_ != Stage::walking || list_job_ != 0) return;
  if (!last_listed_) {
    step.effects.start(list_job_ = step.next_id++, ListItems{walked_, config_.page_items});
  } else if (running_.empty()) {
    stage_ = Stage::done;
    log_done(step);
  }
}

void Precompute::look_up(Step step, std::vector<Wanted> items) {
  const NodeId leader = leader_.leader(step.now);
  if (leader == 0) {  // without a leader request all of them; existing blocks are not rewritten
    want_all(step.now, items);
    return work(step);
  }
  LookupBlocks lookup{
      .id = step.next_id++, .count_access = false, .all_holders = assignment_.planned() || !leaving_.empty()};
  for (const Wanted& wanted : items)
    lookup.blocks.push_back(
        {wanted.item.block, SegmentKind::item, static_cast<std::uint32_t>(wanted.item.tokens.size())});
  lookup_ = BackgroundJob{lookup.id, leader, std::move(items), step.now + config_.lookup_wait};
  step.effects.send({leader, Role::cache_meta}, std::move(lookup));
}

// Suspects run alone: a loss then cannot take other chunks with it or be blamed on the wrong one.
// Pulls wait for computed chunks, which may make the same blocks.
bool Precompute::may_start() const {
  if (missing_.empty() || running_.size() >= config_.running_max) return false;
  if (running_.empty()) return true;
  if (missing_.front().together_max > 0 || running_.begin()->second.suspect) return false;
  return missing_.front().at == 0 ||
         std::ranges::all_of(running_, [](const auto& r) { return r.second.pulls; });
}

// Returns whether the plans of chunks begin with the system prompt, as their items see it.
bool Precompute::begins_with_system() const {
  return !form_.system.empty() && item_block_place(config_.blocks, form_).sees_system;
}

// Sends a plan of the system segment, if the blocks see it, and some items. It has no readouts, since only
// the blocks are needed.
void Precompute::compute_chunk(Step step, NodeId node) {
  Execute chunk{.id = step.next_id++,
                .priority = Priority::background,
                .budget_us = config_.budget.us,
                .model_version = names_.model_version()};
  const bool framed = begins_with_system();
  const std::int32_t start = item_block_place(config_.blocks, form_).start;
  if (framed) {
    chunk.plan.segments.push_back({SegmentKind::system, form_.system, 0, {}});
    chunk.blocks.push_back({names_.system(), "", 0});
  }
  BackgroundJob asked{chunk.id, node, missing_.take_chunk(), step.now + config_.budget + config_.lookup_wait};
  for (const Wanted& wanted : asked.items) {
    const Item& item = wanted.item;
    chunk.plan.segments.push_back(
        {SegmentKind::item, item.tokens, start, VisibleSegments::all_before(framed)});
    chunk.blocks.push_back({item.block, item.id, workers_.alive(step.now, wanted.at) ? wanted.at : 0});
    chunk.retention.belongs = wanted.refreshed;
    asked.suspect = wanted.together_max > 0;
    asked.pulls = chunk.blocks.back().at != 0;
  }
  chunk.alone = asked.suspect;
  if (chunk.retention.belongs)
    step.effects.count(Metric::items_refreshed, static_cast<double>(asked.items.size()));
  running_[chunk.id] = std::move(asked);
  step.effects.send({node, Role::inference_worker}, std::move(chunk));
}

// Halving the chunk finds the guilty one of several items.
void Precompute::blame(Step step, const BackgroundJob& chunk, std::uint32_t blame, std::string_view why) {
  std::vector<Wanted> items = chunk.items;
  const bool by_itself = items.size() == 1;
  for (Wanted& wanted : items) {
    wanted.together_max = static_cast<std::uint32_t>((items.size() + 1) / 2);
    if (by_itself) wanted.blame += blame;
    missing_.remember(wanted);
  }
  if (!by_itself || items.front().blame < MissingItems::blame_most) return missing_.give_back(items);
  missing_.drop(items.front().item.id);  // on the other nodes
  ++items_given_up_;
  step.effects.count(Metric::item_blocks_given_up);
  step.effects.log(LogLevel::warning, "precompute_gives_up",
                   {{"item", items.front().item.id}, {"why", std::string(why)}});
}

// A lost worker costs more than many small plans, so its items are tried one by one at once: an
// item that kills does so at most twice (promise 12).
void Precompute::blame_loss(Step step, const BackgroundJob& chunk) {
  if (chunk.items.size() == 1) return blame(step, chunk, blame_failed, "the worker was lost");
  std::vector<Wanted> items = chunk.items;
  for (Wanted& wanted : items) {
    wanted.together_max = 1;
    wanted.blame += blame_failed;
    missing_.remember(wanted);
  }
  missing_.give_back(items);
}

// ---- answers ----

bool Precompute::on_status(Step step, const StatusReply& reply) {
  if (stage_ == Stage::off || reply.role != Role::kv_worker || !capacity_.has(reply.node)) return false;
  if (!reply.ready) return true;
  // Without an assignment another node might compute what the index does not know of this one yet.
  if (!assignment_.planned() && behind_.contains(reply.node) && capacity_.is_unknown(reply.node))
    catch_up_from_ = step.now + config_.settle;
  capacity_.hear_ready(reply.node);
  work(step);
  return true;
}

bool Precompute::on_listed(Step step, std::uint64_t job, const JobResult& result) {
  if (job != list_job_ || list_job_ == 0) return false;
  list_job_ = 0;
  const auto* list = std::get_if<ItemList>(&result);
  if (!list) paused_until_ = step.now + config_.pause;
  if (std::exchange(list_is_stale_, false)) {
    work(step);
  } else if (list) {
    take_page(step, *list);
  }
  return true;
}

void Precompute::take_page(Step step, const ItemList& page) {
  last_listed_ = page.last || page.items.empty();
  if (!page.items.empty()) walked_ = page.items.back() + 1;
  std::vector<Wanted> items;
  for (const ItemNumber number : page.items)
    if (Item item = page.catalog->item(number).copy(); fits(item)) items.push_back({std::move(item)});
  if (renamed_)
    for (Wanted& wanted : items) become_block(wanted.item);
  if (!items.empty() && !lookup_) {
    look_up(step, std::move(items));
  } else {
    want_all(step.now, items);  // a lookup of a put item is in flight
    work(step);
  }
}

bool Precompute::on_found(Step step, const BlocksFound& found) {
  if (!lookup_ || lookup_->id != found.id) return false;
  progressed_ = step.now;
  std::vector<MissingItems::LookedUpItem> seen;
  std::span<const NodeId> holders = found.holders;
  for (std::size_t i = 0; i < lookup_->items.size(); ++i) {
    const std::size_t count = i < found.counts.size() ? found.counts[i] : 0;
    seen.push_back({lookup_->items[i], holders.first(std::min(count, holders.size())), count > 0});
    holders = holders.subspan(seen.back().holders.size());
  }
  want(step.now, seen);
  lookup_.reset();
  work(step);
  return true;
}

bool Precompute::on_executed(Step step, const Executed& executed) {
  const auto asked = running_.extract(executed.id);
  if (asked.empty()) return false;
  const BackgroundJob& chunk = asked.mapped();
  progressed_ = step.now;
  for (const Wanted& wanted : chunk.items) missed_.erase(wanted.item.id);
  if (chunk.suspect)
    for (const Wanted& wanted : chunk.items) missing_.clear_blame(wanted.item.id);  // it succeeded
  const auto reused = std::count(executed.reused.begin(), executed.reused.end(), 1);
  const bool system_reused = begins_with_system() && !executed.reused.empty() && executed.reused[0] != 0;
  // the system block is written before any item, if at all
  const bool system_written = begins_with_system() && !system_reused;
  const std::uint32_t written = executed.blocks_written - (system_written && executed.blocks_written > 0);
  items_precomputed_ += written;
  step.effects.count(Metric::item_blocks_precomputed, written);
  const bool all_kept = written + reused - system_reused >= std::ssize(chunk.items);
  if (executed.blocks_written == 0 && !all_kept) {
    on_nothing_kept(step, chunk);
  } else if (!chunk.items.front().refreshed) {  // refreshed items evict others to fit
    capacity_.keep(chunk.node);
    unkept_ = 0;
    // the next walk finds which are missing
    if (!all_kept && stage_ == Stage::walking) behind_.insert(chunk.node);
  }
  work(step);
  return true;
}

// Either the item area is full or the KV-cache worker was silent for a while. The KV-cache worker
// is asked before the next attempt, after which only the first cause remains. The items are not to
// blame. After the walk a chunk is not tried again: its items are, when requests miss them.
void Precompute::on_nothing_kept(Step step, const BackgroundJob& chunk) {
  if (chunk.items.front().refreshed) return;
  if (stage_ == Stage::done && ++unkept_ >= unkept_max) return become_full(step);
  if (stage_ != Stage::walking) return;
  capacity_.keep_nothing(chunk.node);
  std::vector<Wanted> items;
  for (const Wanted& wanted : chunk.items)
    items.push_back({.item = wanted.item, .node = wanted.node, .at = wanted.at});
  missing_.give_back(items);
  if (capacity_.none_has_capacity(step.now)) become_full(step);
}

void Precompute::become_full(Step step) {
  stage_ = Stage::full;
  missing_.keep_refreshed();
  step.effects.log(
      LogLevel::warning, "precompute_full",
      {{"items", items_precomputed_},
       {"why", "the item area of every worker's pool is full; the other items are computed when requested"},
       {"expected", "a larger pool.memory or pool.item_share, or pool.kv_format bf16"}});
}

void Precompute::want(Instant now, std::span<const MissingItems::LookedUpItem> seen) {
  missing_.add({seen.begin(), seen.end()},
               {.takes = [&](NodeId node, bool refreshed) { return takes_chunks(now, node, refreshed); },
                .alive = [&](NodeId node) { return workers_.alive(now, node); },
                .has = [&](NodeId node) { return capacity_.has(node); },
                .leaves = [&](NodeId node) { return leaving_.contains(node); }});
}

void Precompute::want_all(Instant now, const std::vector<Wanted>& items) {
  std::vector<MissingItems::LookedUpItem> seen;
  for (const Wanted& wanted : items) seen.push_back({.wanted = wanted, .holders = {}});
  want(now, seen);
}

// A busy worker says nothing about the items, and a timeout only says that there were too many. A
// device may fail because of them or by itself, so an item is given up only after several such
// failures.
bool Precompute::on_refused(Step step, const Refused& refused) {
  const auto asked = running_.extract(refused.id);
  if (asked.empty()) return false;
  const Refusal& why = refused.refusal;
  paused_until_ = step.now + config_.pause;
  if (why.kind == RefusalKind::unavailable && !why.code.starts_with("device_")) {
    if (assignment_.planned()) {  // other items come first
      missing_.put_behind(asked.mapped().items);
    } else {
      missing_.give_back(asked.mapped().items);
    }
  } else {
    const std::uint32_t weight = why.kind == RefusalKind::unavailable         ? blame_silent
                                 : why.kind == RefusalKind::deadline_exceeded ? 0
                                                                              : blame_failed;
    blame(step, asked.mapped(), weight, why.code + ": " + why.what);
  }
  return true;
}

std::string Precompute::check_bounds() const {
  if (running_.size() > config_.running_max) return "precompute: more background plans than running_max";
  if (changed_.size() > config_.changed_max) return "precompute: more put items than changed_max";
  if (missed_.size() > config_.changed_max) return "precompute: more missed items than changed_max";
  if (missing_.blamed() > config_.blamed_max) return "precompute: more suspects than blamed_max";
  // At most two pages are missing, and what was given back.
  const std::size_t copies = assignment_.planned() ? std::max<std::size_t>(1, capacity_.size()) : 1;
  const std::size_t most =
      copies * (std::size_t{config_.page_items} * (3 + config_.running_max) + config_.changed_max);
  return missing_.size() > most ? "precompute: too many missing items" : assignment_.check_bounds();
}

}  // namespace troupe::router
