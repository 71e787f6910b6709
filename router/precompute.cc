#include "router/precompute.h"

#include <algorithm>
#include <utility>

namespace troupe::router {

Precompute::Precompute(PrecomputeConfig config, const WorkerTable& workers, const LeaderView& leader,
                       PromptForm form, NameContext names)
    : config_(config), workers_(workers), leader_(leader), form_(std::move(form)), names_(std::move(names)) {
  for (const NodeId node : workers_.nodes()) rooms_[node] = Room::unknown;
}

std::string_view Precompute::state() const {
  switch (stage_) {
    case Stage::off:
      return "off";
    case Stage::walking:
      return some_room_ready() ? "running" : "waiting";
    case Stage::done:
      return "done";
    case Stage::full:
      return "full";
  }
  return "";
}

void Precompute::start(Turn turn) {
  if (!config_.on) return;
  stage_ = Stage::walking;
  on_timer(turn);
}

void Precompute::on_timer(Turn turn) {
  if (stage_ == Stage::walking || !missing_.empty() || !changed_.empty()) ask_rooms(turn);
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

// Another model: all blocks have other names, so everything is missing again. Another catalog: other items.
void Precompute::follow(Turn turn, const std::string& model_version, const std::string& catalog_version) {
  if (model_version == names_.model_version && catalog_version == catalog_version_) return;
  renamed_ = renamed_ || model_version != names_.model_version;
  names_.model_version = model_version;
  catalog_version_ = catalog_version;
  if (stage_ == Stage::off) return;
  for (auto& [node, room] : rooms_)
    if (room != Room::unknown) room = Room::ready;
  stage_ = Stage::walking;
  after_.clear();
  last_listed_ = false;
  list_is_stale_ = list_job_ != 0;
  lookup_.reset();
  changed_.clear();  // the walk finds them
  missing_.clear();
  running_.clear();
  work(turn);
}

void Precompute::lose(Turn turn, std::span<const NodeId> nodes) {
  if (nodes.empty()) return;
  for (const NodeId node : nodes) {
    const auto room = rooms_.find(node);
    if (room != rooms_.end()) room->second = Room::unknown;
  }
  for (auto at = running_.begin(); at != running_.end();) {
    const bool there = std::find(nodes.begin(), nodes.end(), at->second.node) != nodes.end();
    if (there) give_back(at->second.items);
    at = there ? running_.erase(at) : std::next(at);
  }
  work(turn);
}

bool Precompute::fits(const Item& item) const {
  return !item.tokens.empty() && form_.system.size() + item.tokens.size() <= form_.positions_max;
}

// ---- where there is room ----

// A few at a time, in turn, of those that have to say that they are ready.
void Precompute::ask_rooms(Turn turn) {
  const std::vector<NodeId>& nodes = workers_.nodes();
  std::uint32_t asked = 0;
  for (std::size_t i = 0; i < nodes.size() && asked < config_.asked_max; ++i) {
    const NodeId node = nodes[next_asked_++ % nodes.size()];
    const Room room = rooms_.at(node);
    if ((room != Room::unknown && room != Room::doubtful) || !workers_.alive(turn.now, node)) continue;
    turn.effects.send({node, Role::kv_worker}, StatusRequest{turn.next_id++});
    ++asked;
  }
}

bool Precompute::some_room_ready() const {
  return std::any_of(rooms_.begin(), rooms_.end(), [](const auto& room) {
    return room.second == Room::ready || room.second == Room::doubtful_ready;
  });
}

bool Precompute::takes_chunks(Instant now, NodeId node) const {
  if (!workers_.usable(now, node, names_.model_version)) return false;
  const Room room = rooms_.at(node);
  if (stage_ != Stage::walking) return room != Room::unknown;  // put items are tried where it was full, too
  return room == Room::ready || room == Room::doubtful_ready;
}

NodeId Precompute::next_worker(Instant now) {
  const std::vector<NodeId>& nodes = workers_.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeId node = nodes[next_sent_++ % nodes.size()];
    if (takes_chunks(now, node)) return node;
  }
  return 0;
}

bool Precompute::nobody_has_room(Instant now) const {
  return std::all_of(rooms_.begin(), rooms_.end(), [&](const auto& room) {
    return room.second == Room::full || !workers_.alive(now, room.first);
  });
}

// ---- one thing after the other: compute what is missing, look up what changed, walk on ----

void Precompute::work(Turn turn) {
  if (stage_ == Stage::off || turn.now < paused_until_) return;
  while (running_.size() < config_.running_max && !missing_.empty()) {
    const NodeId node = next_worker(turn.now);
    if (node == 0) return;
    compute_chunk(turn, node);
  }
  if (!missing_.empty() || lookup_) return;
  if (stage_ == Stage::walking && !some_room_ready()) return;
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
  const NodeId leader = leader_.leader(turn.now);
  if (leader == 0) {  // nobody to ask: all of them, what is there is not rewritten
    give_back(items);
    return work(turn);
  }
  LookupBlocks lookup{.id = turn.next_id++, .count_access = false};
  for (const Item& item : items) lookup.item_blocks.push_back(item.block);
  lookup_ = Asked{lookup.id, leader, std::move(items), turn.now + config_.lookup_wait};
  turn.effects.send({leader, Role::cache_meta}, std::move(lookup));
}

// A plan of the system segment and some items, without readouts: only the blocks are wanted.
void Precompute::compute_chunk(Turn turn, NodeId node) {
  Execute chunk{.id = turn.next_id++,
                .priority = Priority::background,
                .budget_us = config_.budget.us,
                .model_version = names_.model_version};
  const bool framed = !form_.system.empty();
  const auto start = static_cast<std::int32_t>(form_.system.size());
  if (framed)
    chunk.segments.push_back({SegmentKind::system, form_.system, 0, {}, system_block(form_, names_), ""});
  Asked asked{chunk.id, node, {}, turn.now + config_.budget + config_.lookup_wait};
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
  turn.effects.send({node, Role::inference_worker}, std::move(chunk));
}

void Precompute::give_back(const std::vector<Item>& items) {
  missing_.insert(missing_.begin(), items.begin(), items.end());
}

// ---- answers ----

bool Precompute::on_status(Turn turn, const StatusReply& reply) {
  const auto room = rooms_.find(reply.node);
  if (stage_ == Stage::off || reply.role != Role::kv_worker || room == rooms_.end()) return false;
  if (!reply.ready) return true;
  if (room->second == Room::unknown) room->second = Room::ready;
  if (room->second == Room::doubtful) room->second = Room::doubtful_ready;
  work(turn);
  return true;
}

bool Precompute::on_listed(Turn turn, std::uint64_t job, const JobResult& result) {
  if (job != list_job_ || list_job_ == 0) return false;
  list_job_ = 0;
  const auto* list = std::get_if<ItemList>(&result);
  if (!list) paused_until_ = turn.now + config_.pause;
  if (std::exchange(list_is_stale_, false)) {
    work(turn);
  } else if (list) {
    take_page(turn, *list);
  }
  return true;
}

void Precompute::take_page(Turn turn, const ItemList& page) {
  last_listed_ = page.last || page.items.empty();
  if (!page.items.empty()) after_ = page.items.back().id;
  std::vector<Item> items;
  for (const Item& item : page.items)
    if (fits(item)) items.push_back(item);
  if (renamed_)
    for (Item& item : items) item.block = item_block(form_, names_, item.tokens);
  if (!items.empty() && !lookup_) {
    look_up(turn, std::move(items));
  } else {
    missing_.insert(missing_.end(), items.begin(), items.end());  // a put item is being looked up
    work(turn);
  }
}

bool Precompute::on_found(Turn turn, const BlocksFound& found) {
  if (!lookup_ || lookup_->id != found.id) return false;
  for (std::size_t i = 0; i < lookup_->items.size(); ++i)
    if (i >= found.item_counts.size() || found.item_counts[i] == 0) missing_.push_back(lookup_->items[i]);
  lookup_.reset();
  work(turn);
  return true;
}

bool Precompute::on_executed(Turn turn, const Executed& executed) {
  const auto asked = running_.extract(executed.id);
  if (asked.empty()) return false;
  const Asked& chunk = asked.mapped();
  const auto reused = std::count(executed.reused.begin(), executed.reused.end(), 1);
  const bool system_reused = !form_.system.empty() && !executed.reused.empty() && executed.reused[0] != 0;
  const bool system_written = !form_.system.empty() && !system_reused;  // before any item, if at all
  const std::uint32_t written = executed.blocks_written - (system_written && executed.blocks_written > 0);
  items_precomputed_ += written;
  turn.effects.count(Metric::item_blocks_precomputed, written);
  if (executed.blocks_written == 0 && reused - system_reused < std::ssize(chunk.items)) {
    on_fruitless(turn, chunk);
  } else {
    rooms_[chunk.node] = Room::ready;
  }
  work(turn);
  return true;
}

// The item area there is full, or the KV-cache worker was silent for a while: the latter is asked before the
// next try, and then it can only be the former.
void Precompute::on_fruitless(Turn turn, const Asked& chunk) {
  if (stage_ != Stage::walking) return;  // items that were put later
  Room& room = rooms_[chunk.node];
  room = room == Room::doubtful_ready || room == Room::full ? Room::full : Room::doubtful;
  give_back(chunk.items);
  if (!nobody_has_room(turn.now)) return;
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

std::string Precompute::check_bounds() const {
  if (running_.size() > config_.running_max) return "precompute: more background plans than running_max";
  if (changed_.size() > config_.changed_max) return "precompute: more put items than changed_max";
  // What is missing is at most two pages and what was given back.
  const std::size_t most = std::size_t{config_.page_items} * (3 + config_.running_max) + config_.changed_max;
  return missing_.size() > most ? "precompute: too many missing items" : "";
}

}  // namespace troupe::router
