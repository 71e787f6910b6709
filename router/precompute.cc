#include "router/precompute.h"

#include <algorithm>
#include <utility>

namespace troupe::router {

Precompute::Precompute(PrecomputeConfig config, Peers peers, PromptForm form, NameContext names)
    : config_(config), peers_(peers), form_(std::move(form)), names_(std::move(names)) {}

std::string_view Precompute::state() const {
  switch (stage_) {
    case Stage::off:
      return "off";
    case Stage::waiting:
      return "waiting";
    case Stage::walking:
      return "running";
    case Stage::done:
      return "done";
    case Stage::full:
      return "full";
  }
  return "";
}

void Precompute::start(Turn turn) {
  if (!config_.on) return;
  stage_ = Stage::waiting;
  on_timer(turn);
}

void Precompute::on_timer(Turn turn) {
  if (stage_ == Stage::waiting) turn.effects.send(peers_.kv_worker, StatusRequest{turn.next_id++});
  if (lookup_ &&
      turn.now >= lookup_->deadline) {  // a silent index: ask for all of them, what is there is not rewritten
    give_back(lookup_->items);
    lookup_.reset();
  }
  for (auto at = running_.begin(); at != running_.end();) {
    const bool overdue = turn.now >= at->second.deadline;
    if (overdue) give_back(at->second.items);
    at = overdue ? running_.erase(at) : std::next(at);
  }
  work(turn);
  turn.effects.set_timer(precompute_timer, turn.now + config_.poll);
}

void Precompute::add(Turn turn, Item item) {
  drop(item.id);
  if (stage_ == Stage::off || changed_.size() >= config_.changed_max || !fits(item)) return;
  changed_.push_back(std::move(item));
  work(turn);
}

void Precompute::drop(const std::string& item) {
  const auto is_it = [&](const Item& other) { return other.id == item; };
  std::erase_if(changed_, is_it);
  std::erase_if(missing_, is_it);
}

bool Precompute::fits(const Item& item) const {
  return !item.tokens.empty() && form_.system.size() + item.tokens.size() <= form_.positions_max;
}

// ---- one thing after the other: compute what is missing, look up what changed, walk on ----

void Precompute::work(Turn turn) {
  if (stage_ == Stage::off || stage_ == Stage::waiting || turn.now < paused_until_) return;
  while (running_.size() < config_.running_max && !missing_.empty()) compute_chunk(turn);
  if (!missing_.empty() || lookup_) return;
  if (!changed_.empty()) {
    const std::size_t count = std::min<std::size_t>(changed_.size(), config_.page_items);
    const auto end = changed_.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<Item> items(changed_.begin(), end);
    changed_.erase(changed_.begin(), end);
    return look_up(turn, std::move(items));
  }
  if (stage_ != Stage::walking || list_job_ != 0) return;
  if (!last_listed_) {
    turn.effects.start(list_job_ = turn.next_id++, ListItems{after_, config_.page_items});
  } else if (running_.empty()) {
    stage_ = Stage::done;
    turn.effects.log(LogLevel::info, "precompute_done", {{"items", std::to_string(items_precomputed_)}});
  }
}

void Precompute::look_up(Turn turn, std::vector<Item> items) {
  LookupBlocks lookup{.id = turn.next_id++, .count_access = false};
  for (const Item& item : items) lookup.item_blocks.push_back(item.block);
  lookup_ = Asked{lookup.id, std::move(items), turn.now + config_.lookup_wait};
  turn.effects.send(peers_.cache_meta, std::move(lookup));
}

// A plan of the system segment and some items, without readouts: only the blocks are wanted.
void Precompute::compute_chunk(Turn turn) {
  Execute chunk{turn.next_id++, Priority::background, config_.budget.us, {}, {}, {}};
  const bool framed = !form_.system.empty();
  const auto start = static_cast<std::int32_t>(form_.system.size());
  if (framed)
    chunk.segments.push_back({SegmentKind::system, form_.system, 0, {}, system_block(form_, names_), ""});
  Asked asked{chunk.id, {}, turn.now + config_.budget + config_.lookup_wait};
  std::size_t tokens = 0;
  while (!missing_.empty()) {
    const Item& item = missing_.front();
    if (!asked.items.empty() && tokens + item.tokens.size() > config_.chunk_tokens) break;
    tokens += item.tokens.size();
    std::vector<std::uint32_t> sees;
    if (framed) sees.push_back(0);
    chunk.segments.push_back({SegmentKind::item, item.tokens, start, std::move(sees), item.block, item.id});
    asked.items.push_back(item);
    missing_.pop_front();
  }
  running_[chunk.id] = std::move(asked);
  turn.effects.send(peers_.inference_worker, std::move(chunk));
}

void Precompute::give_back(const std::vector<Item>& items) {
  missing_.insert(missing_.begin(), items.begin(), items.end());
}

// ---- answers ----

bool Precompute::on_status(Turn turn, const StatusReply& reply) {
  if (stage_ != Stage::waiting || Address{reply.node, reply.role} != peers_.kv_worker) return false;
  if (!reply.ready) return true;
  stage_ = Stage::walking;
  work(turn);
  return true;
}

bool Precompute::on_listed(Turn turn, std::uint64_t job, const JobResult& result) {
  if (job != list_job_ || list_job_ == 0) return false;
  list_job_ = 0;
  const auto* list = std::get_if<ItemList>(&result);
  if (!list) {
    paused_until_ = turn.now + config_.pause;
    return true;
  }
  last_listed_ = list->last || list->items.empty();
  if (!list->items.empty()) after_ = list->items.back().id;
  std::vector<Item> items;
  for (const Item& item : list->items)
    if (fits(item)) items.push_back(item);
  if (!items.empty() && !lookup_) {
    look_up(turn, std::move(items));
  } else {
    missing_.insert(missing_.end(), items.begin(), items.end());  // a put item is being looked up
    work(turn);
  }
  return true;
}

bool Precompute::on_found(Turn turn, const BlocksFound& found) {
  if (!lookup_ || lookup_->id != found.id) return false;
  for (std::size_t i = 0; i < lookup_->items.size(); ++i)
    if (i >= found.item_nodes.size() || found.item_nodes[i] == 0) missing_.push_back(lookup_->items[i]);
  lookup_.reset();
  work(turn);
  return true;
}

bool Precompute::on_executed(Turn turn, const Executed& executed) {
  const auto asked = running_.extract(executed.id);
  if (asked.empty()) return false;
  const std::vector<Item>& items = asked.mapped().items;
  const auto reused = std::count(executed.reused.begin(), executed.reused.end(), 1);
  const bool system_reused = !form_.system.empty() && !executed.reused.empty() && executed.reused[0] != 0;
  const bool system_written = !form_.system.empty() && !system_reused;  // before any item, if at all
  const std::uint32_t written = executed.blocks_written - (system_written && executed.blocks_written > 0);
  items_precomputed_ += written;
  turn.effects.count(Metric::item_blocks_precomputed, written);
  if (executed.blocks_written == 0 && reused - system_reused < std::ssize(items)) {
    on_fruitless(turn, items);
  } else {
    fruitless_ = false;
  }
  work(turn);
  return true;
}

// The item area is full, or the KV-cache worker was silent for a while: the latter is asked before the next
// try, and then it can only be the former.
void Precompute::on_fruitless(Turn turn, const std::vector<Item>& items) {
  if (stage_ != Stage::walking && stage_ != Stage::waiting) return;  // items that were put later
  if (stage_ == Stage::waiting || !std::exchange(fruitless_, true)) {
    give_back(items);
    stage_ = Stage::waiting;
    return;
  }
  stage_ = Stage::full;
  missing_.clear();
  turn.effects.log(LogLevel::info, "precompute_full", {{"items", std::to_string(items_precomputed_)}});
}

bool Precompute::on_refused(Turn turn, const Refused& refused) {
  const auto asked = running_.extract(refused.id);
  if (asked.empty()) return false;
  const std::uint16_t status = refused.refusal.status;
  paused_until_ = turn.now + config_.pause;
  if (status == 503 || status == 504) {
    give_back(asked.mapped().items);
  } else {
    turn.effects.log(LogLevel::warning, "precompute_refused",
                     {{"code", refused.refusal.code},
                      {"what", refused.refusal.what},
                      {"first_item", asked.mapped().items.front().id}});
  }
  return true;
}

}  // namespace troupe::router
