#include "router/ahead/precompute.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace troupe::router {
namespace {

// Of an item; half of the most for each worker that was lost with it or refused it. A silence may be that of
// a lost message, so it weighs less.
constexpr std::uint32_t blame_silent = 1, blame_failed = 3, blame_most = 6;

}  // namespace

Precompute::Precompute(PrecomputeConfig config, const WorkerTable& workers, const LeaderView& leader,
                       PromptForm form, NameContext names, std::shared_ptr<const ItemPlaces> places)
    : config_(config),
      workers_(workers),
      leader_(leader),
      form_(std::move(form)),
      names_(std::move(names)),
      places_(config_.refresh, std::move(places)) {
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

bool Precompute::at_rest() const {
  return stage_ != Stage::walking && !lookup_ && changed_.empty() && missing_.empty() && running_.empty();
}

void Precompute::start(Turn turn) {
  if (!config_.on) return;
  stage_ = Stage::walking;
  on_timer(turn);
}

void Precompute::on_timer(Turn turn) {
  watch_nodes(turn);
  if (stage_ == Stage::walking || walk_due_ || !missing_.empty() || !changed_.empty() || !behind_.empty())
    ask_rooms(turn);
  if (lookup_ &&
      turn.now >= lookup_->deadline) {  // a silent index: ask for all of them, what is there is not rewritten
    want_all(turn.now, lookup_->items);
    lookup_.reset();
  }
  for (auto at = running_.begin(); at != running_.end();) {
    const bool overdue = turn.now >= at->second.deadline;
    if (overdue) blame(turn, at->second, blame_silent, "no answer");
    at = overdue ? running_.erase(at) : std::next(at);
  }
  work(turn);
  turn.effects.set_timer(precompute_timer, turn.now + config_.poll);
}

void Precompute::add(Turn turn, Item item) {
  drop(item.id);
  blamed_.erase(item.id);  // its content is another
  refresh(std::move(item));
  work(turn);
}

void Precompute::drop(const std::string& item) {
  const auto is_it = [&](const Item& other) { return other.id == item; };
  std::erase_if(changed_, is_it);
  std::erase_if(missing_, [&](const Wanted& wanted) { return is_it(wanted.item); });
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
  running_.clear();
  blamed_.clear();
  walk_again();
  work(turn);
}

void Precompute::walk_again() {
  stage_ = Stage::walking;
  walk_due_ = false;
  after_.clear();
  last_listed_ = false;
  list_is_stale_ = list_job_ != 0;
  lookup_.reset();
  changed_.clear();  // the walk finds them
  missing_.clear();
  behind_.clear();
}

void Precompute::lose(Turn turn, std::span<const NodeId> nodes) {
  if (nodes.empty()) return;
  for (const NodeId node : nodes) {
    const auto room = rooms_.find(node);
    if (room != rooms_.end()) room->second = Room::unknown;
    if (places_.planned() && room != rooms_.end()) behind_.insert(node);
  }
  for (auto at = running_.begin(); at != running_.end();) {
    const bool there = std::find(nodes.begin(), nodes.end(), at->second.node) != nodes.end();
    if (there) blame_loss(turn, at->second);
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

// What changed is tried where it was full, too.
bool Precompute::takes_chunks(Instant now, NodeId node, bool refreshed) const {
  if (!workers_.usable(now, node, names_.model_version)) return false;
  const Room room = rooms_.at(node);
  if (stage_ != Stage::walking || refreshed) return room != Room::unknown;
  return room == Room::ready || room == Room::doubtful_ready;
}

bool Precompute::is_ready(Instant now, NodeId node) const {
  const Room room = rooms_.at(node);
  return (room == Room::ready || room == Room::doubtful_ready) &&
         workers_.usable(now, node, names_.model_version);
}

bool Precompute::may_catch_up(Instant now) const {
  return std::ranges::any_of(behind_, [&](NodeId node) { return is_ready(now, node); });
}

NodeId Precompute::next_worker(Instant now) {
  const std::vector<NodeId>& nodes = workers_.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeId node = nodes[next_sent_++ % nodes.size()];
    if (takes_chunks(now, node, false)) return node;
  }
  return 0;
}

// Where the first of the missing ones go that may go somewhere now. A node that is only asked whether it is
// ready is waited for, behind the others; what belongs to one that takes nothing is left out.
NodeId Precompute::next_chunk(Instant now) {
  for (std::size_t i = rooms_.size() + 1; i > 0 && !missing_.empty(); --i) {
    const NodeId node = missing_.front().node;
    if (node == 0) return next_worker(now);
    if (takes_chunks(now, node, missing_.front().refreshed)) return node;
    if (rooms_.at(node) != Room::doubtful || !workers_.usable(now, node, names_.model_version)) {
      leave_out(node, missing_.front().refreshed);
    } else {
      const auto its =
          std::ranges::stable_partition(missing_, [&](const Wanted& w) { return w.node != node; });
      if (its.size() == missing_.size()) return 0;
    }
  }
  return 0;
}

void Precompute::leave_out(NodeId node, bool refreshed) {
  std::erase_if(missing_,
                [&](const Wanted& wanted) { return wanted.node == node && wanted.refreshed <= refreshed; });
  behind_.insert(node);
}

bool Precompute::nobody_has_room(Instant now) const {
  return std::all_of(rooms_.begin(), rooms_.end(), [&](const auto& room) {
    return room.second == Room::full || !workers_.alive(now, room.first);
  });
}

// ---- one thing after the other: compute what is missing, look up what changed, walk on ----

void Precompute::work(Turn turn) {
  if (stage_ == Stage::off || turn.now < paused_until_) return;
  while (may_start()) {
    const NodeId node = next_chunk(turn.now);
    if (node == 0 && !missing_.empty()) return;
    if (node != 0 && !may_start()) return;  // another is in front now
    if (node != 0) compute_chunk(turn, node);
  }
  if (!missing_.empty() || lookup_) return;
  if (stage_ == Stage::walking && !some_room_ready()) return;
  if (!changed_.empty()) {
    const std::size_t count = std::min<std::size_t>(changed_.size(), config_.page_items);
    const auto end = changed_.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<Wanted> items;
    for (auto item = changed_.begin(); item != end; ++item)
      items.push_back({.item = std::move(*item), .refreshed = places_.planned()});
    changed_.erase(changed_.begin(), end);
    return look_up(turn, std::move(items));
  }
  if (stage_ != Stage::walking && running_.empty() &&
      ((walk_due_ && some_room_ready()) || may_catch_up(turn.now)))
    walk_again();
  if (stage_ != Stage::walking || list_job_ != 0) return;
  if (!last_listed_) {
    turn.effects.start(list_job_ = turn.next_id++, ListItems{after_, config_.page_items});
  } else if (running_.empty()) {
    stage_ = Stage::done;
    turn.effects.log(LogLevel::info, "precompute_done", {{"items", std::to_string(items_precomputed_)}});
  }
}

void Precompute::look_up(Turn turn, std::vector<Wanted> items) {
  const NodeId leader = leader_.leader(turn.now);
  if (leader == 0) {  // nobody to ask: all of them, what is there is not rewritten
    want_all(turn.now, items);
    return work(turn);
  }
  LookupBlocks lookup{.id = turn.next_id++, .count_access = false, .all_holders = places_.planned()};
  for (const Wanted& wanted : items) lookup.item_blocks.push_back(wanted.item.block);
  lookup_ = Asked{lookup.id, leader, std::move(items), turn.now + config_.lookup_wait};
  turn.effects.send({leader, Role::cache_meta}, std::move(lookup));
}

// Suspects run by themselves: nothing beside them is lost with them, or lost to another and laid to them.
// What is pulled waits for what is computed: it may be the same.
bool Precompute::may_start() const {
  if (missing_.empty() || running_.size() >= config_.running_max) return false;
  if (running_.empty()) return true;
  if (missing_.front().together_max > 0 || running_.begin()->second.suspect) return false;
  return missing_.front().at == 0 ||
         std::ranges::all_of(running_, [](const auto& r) { return r.second.pulls; });
}

std::vector<Precompute::Wanted> Precompute::take_chunk() {
  const std::uint32_t together_max = missing_.front().together_max;
  const NodeId node = missing_.front().node;
  const bool computed = missing_.front().at == 0, refreshed = missing_.front().refreshed;
  std::vector<Wanted> items;
  std::size_t tokens = 0;
  while (!missing_.empty() && missing_.front().together_max == together_max &&
         missing_.front().node == node && (missing_.front().at == 0) == computed &&
         missing_.front().refreshed == refreshed) {
    const Wanted& next = missing_.front();
    tokens += next.item.tokens.size();
    if (!items.empty() && tokens > config_.chunk_tokens) break;
    if (together_max > 0 && items.size() >= together_max) break;
    items.push_back(std::move(missing_.front()));
    missing_.pop_front();
  }
  return items;
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
  Asked asked{chunk.id, node, take_chunk(), turn.now + config_.budget + config_.lookup_wait};
  for (const Wanted& wanted : asked.items) {
    const Item& item = wanted.item;
    std::vector<std::uint32_t> sees;
    if (framed) sees.push_back(0);
    chunk.segments.push_back({SegmentKind::item, item.tokens, start, std::move(sees), item.block, item.id});
    chunk.segments.back().at = workers_.alive(turn.now, wanted.at) ? wanted.at : 0;
    chunk.retention.belongs = wanted.refreshed;
    asked.suspect = wanted.together_max > 0;
    asked.pulls = chunk.segments.back().at != 0;
  }
  chunk.alone = asked.suspect;
  if (chunk.retention.belongs)
    turn.effects.count(Metric::items_refreshed, static_cast<double>(asked.items.size()));
  running_[chunk.id] = std::move(asked);
  turn.effects.send({node, Role::inference_worker}, std::move(chunk));
}

void Precompute::give_back(const std::vector<Wanted>& items) {
  missing_.insert(missing_.begin(), items.begin(), items.end());
}

// Which of several it was the halves will tell.
void Precompute::blame(Turn turn, const Asked& chunk, std::uint32_t blame, std::string_view why) {
  std::vector<Wanted> items = chunk.items;
  const bool by_itself = items.size() == 1;
  for (Wanted& wanted : items) {
    wanted.together_max = static_cast<std::uint32_t>((items.size() + 1) / 2);
    if (by_itself) wanted.blame += blame;
    remember(wanted);
  }
  if (!by_itself || items.front().blame < blame_most) return give_back(items);
  std::erase_if(missing_, [&](const Wanted& w) { return w.item.id == items.front().item.id; });  // elsewhere
  ++items_given_up_;
  turn.effects.count(Metric::item_blocks_given_up);
  turn.effects.log(LogLevel::warning, "precompute_gives_up",
                   {{"item", items.front().item.id}, {"why", std::string(why)}});
}

// A lost worker costs more than many small plans, so its items are tried one by one at once: what kills does
// so twice (promise 12).
void Precompute::blame_loss(Turn turn, const Asked& chunk) {
  if (chunk.items.size() == 1) return blame(turn, chunk, blame_failed, "its worker was lost");
  std::vector<Wanted> items = chunk.items;
  for (Wanted& wanted : items) {
    wanted.together_max = 1;
    wanted.blame += blame_failed;
    remember(wanted);
  }
  give_back(items);
}

// ---- answers ----

bool Precompute::on_status(Turn turn, const StatusReply& reply) {
  const auto room = rooms_.find(reply.node);
  if (stage_ == Stage::off || reply.role != Role::kv_worker || room == rooms_.end()) return false;
  if (!reply.ready) return true;
  if (room->second == Room::doubtful) room->second = Room::doubtful_ready;
  if (room->second == Room::unknown) room->second = Room::ready;
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
  std::vector<Wanted> items;
  for (const Item& item : page.items)
    if (fits(item)) items.push_back({item});
  if (renamed_)
    for (Wanted& wanted : items) wanted.item.block = item_block(form_, names_, wanted.item.tokens);
  if (!items.empty() && !lookup_) {
    look_up(turn, std::move(items));
  } else {
    want_all(turn.now, items);  // a put item is being looked up
    work(turn);
  }
}

bool Precompute::on_found(Turn turn, const BlocksFound& found) {
  if (!lookup_ || lookup_->id != found.id) return false;
  std::vector<Wanted> missing;
  std::span<const NodeId> holders = found.item_holders;
  for (std::size_t i = 0; i < lookup_->items.size(); ++i) {
    const std::size_t count = i < found.item_counts.size() ? found.item_counts[i] : 0;
    const std::span<const NodeId> here = holders.first(std::min(count, holders.size()));
    holders = holders.subspan(here.size());
    if (places_.planned() || count == 0) note_missing(turn.now, lookup_->items[i], here, missing);
  }
  want(std::move(missing));
  lookup_.reset();
  work(turn);
  return true;
}

bool Precompute::on_executed(Turn turn, const Executed& executed) {
  const auto asked = running_.extract(executed.id);
  if (asked.empty()) return false;
  const Asked& chunk = asked.mapped();
  if (chunk.suspect)
    for (const Wanted& wanted : chunk.items) blamed_.erase(wanted.item.id);  // it went well
  const auto reused = std::count(executed.reused.begin(), executed.reused.end(), 1);
  const bool system_reused = !form_.system.empty() && !executed.reused.empty() && executed.reused[0] != 0;
  const bool system_written = !form_.system.empty() && !system_reused;  // before any item, if at all
  const std::uint32_t written = executed.blocks_written - (system_written && executed.blocks_written > 0);
  items_precomputed_ += written;
  turn.effects.count(Metric::item_blocks_precomputed, written);
  if (executed.blocks_written == 0 && reused - system_reused < std::ssize(chunk.items)) {
    on_fruitless(turn, chunk);
  } else if (!chunk.items.front().refreshed) {  // those make room for themselves
    rooms_[chunk.node] = Room::ready;
  }
  work(turn);
  return true;
}

// The item area there is full, or the KV-cache worker was silent for a while: the latter is asked before the
// next try, and then it can only be the former. Nobody was hurt: the items are no suspects.
void Precompute::on_fruitless(Turn turn, const Asked& chunk) {
  if (stage_ != Stage::walking || chunk.items.front().refreshed) return;
  Room& room = rooms_[chunk.node];
  room = room == Room::doubtful_ready || room == Room::full ? Room::full : Room::doubtful;
  std::vector<Wanted> items;
  for (const Wanted& wanted : chunk.items)
    items.push_back({.item = wanted.item, .node = wanted.node, .at = wanted.at});
  give_back(items);
  if (!nobody_has_room(turn.now)) return;
  stage_ = Stage::full;
  std::erase_if(missing_, [](const Wanted& wanted) { return !wanted.refreshed; });
  turn.effects.log(LogLevel::info, "precompute_full", {{"items", std::to_string(items_precomputed_)}});
}

// An item for each node where it belongs and is not. One of those computes it unless somebody has it: by
// turns, as the item's key has it, and one that takes chunks now.
void Precompute::note_missing(Instant now, const Wanted& wanted, std::span<const NodeId> holders,
                              std::vector<Wanted>& missing) const {
  Wanted item = wanted;
  recall(item);
  if (item.blame >= blame_most) return;
  if (!places_.planned()) return missing.push_back(std::move(item));
  std::vector<NodeId> nodes = places_.nodes_of(item.item.id);
  item.refreshed = item.refreshed || places_.is_hot(item.item.id);
  std::erase_if(nodes, [&](NodeId node) {
    return std::ranges::find(holders, node) != holders.end() || !rooms_.contains(node);
  });
  if (nodes.empty()) return;
  const auto turns = static_cast<std::ptrdiff_t>(placement::item_key(item.item.id) % nodes.size());
  std::ranges::rotate(nodes, nodes.begin() + turns);
  std::ranges::stable_partition(nodes, [&](NodeId node) { return takes_chunks(now, node, item.refreshed); });
  const auto holder = std::ranges::find_if(holders, [&](NodeId node) { return workers_.alive(now, node); });
  item.at = holder != holders.end() ? *holder : 0;
  for (const NodeId node : nodes) {
    item.node = node;
    missing.push_back(item);
    if (item.at == 0) item.at = node;
  }
}

// A node's items side by side, those that are pulled after all that are computed.
void Precompute::want(std::vector<Wanted> missing) {
  std::ranges::stable_sort(missing, {}, [](const Wanted& w) {
    return std::tuple(w.at != 0, w.node, w.together_max, w.refreshed);
  });
  std::ranges::move(missing, std::back_inserter(missing_));
}

void Precompute::want_all(Instant now, const std::vector<Wanted>& items) {
  std::vector<Wanted> missing;
  for (const Wanted& wanted : items) note_missing(now, wanted, {}, missing);
  want(std::move(missing));
}

// What an item is blamed for counts wherever it is to be, and in later walks. If there are too many, the
// first by name are forgotten: they are innocent again until they fail.
void Precompute::remember(const Wanted& wanted) {
  blamed_[wanted.item.id] = {wanted.together_max, wanted.blame};
  if (blamed_.size() > config_.blamed_max) {
    const auto first = blamed_.begin();
    blamed_.erase(first->first == wanted.item.id ? std::next(first) : first);
  }
  for (Wanted& other : missing_)
    if (other.item.id == wanted.item.id) recall(other);
}

void Precompute::recall(Wanted& wanted) const {
  const auto known = blamed_.find(wanted.item.id);
  if (known == blamed_.end()) return;
  wanted.together_max = known->second.together_max;
  wanted.blame = known->second.blame;
}

// A worker that is busy says nothing about the items, one that ran out of time that they were too many. A
// device may fail because of them or for itself, so one item is given up for that only after several times.
bool Precompute::on_refused(Turn turn, const Refused& refused) {
  const auto asked = running_.extract(refused.id);
  if (asked.empty()) return false;
  const Refusal& why = refused.refusal;
  paused_until_ = turn.now + config_.pause;
  if (why.status == 503 && !why.code.starts_with("device_")) {
    if (places_.planned()) {  // others first
      std::ranges::copy(asked.mapped().items, std::back_inserter(missing_));
    } else {
      give_back(asked.mapped().items);
    }
  } else {
    const std::uint32_t weight = why.status == 503 ? blame_silent : why.status == 504 ? 0 : blame_failed;
    blame(turn, asked.mapped(), weight, why.code + ": " + why.what);
  }
  return true;
}

std::string Precompute::check_bounds() const {
  if (running_.size() > config_.running_max) return "precompute: more background plans than running_max";
  if (changed_.size() > config_.changed_max) return "precompute: more put items than changed_max";
  if (blamed_.size() > config_.blamed_max) return "precompute: more suspects than blamed_max";
  // What is missing is at most two pages and what was given back.
  const std::size_t copies = places_.planned() ? std::max<std::size_t>(1, rooms_.size()) : 1;
  const std::size_t most =
      copies * (std::size_t{config_.page_items} * (3 + config_.running_max) + config_.changed_max);
  return missing_.size() > most ? "precompute: too many missing items" : places_.check_bounds();
}

}  // namespace troupe::router
