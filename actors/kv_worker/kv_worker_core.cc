// Entry of the KV-cache worker, which owns a node's pages: dispatches messages, timers and finished
// jobs to the other kv_worker_*.cc files, and reports the worker's state.
#include "actors/kv_worker/kv_worker_core.h"

#include <algorithm>

#include "runtime/actor/mutants.h"

namespace troupe::actors {
namespace {

// store_timer (2), scrub_timer (4) and migration_timer (6) only wake the core: see report_back_off,
// scrub and migration.
constexpr std::uint64_t report_timer = 1, heartbeat_timer = 3, lending_timer = 5, named_timers = 16;

constexpr std::pair<SegmentKind, std::string_view> kind_names[] = {
    {SegmentKind::system, "system"},
    {SegmentKind::user, "user"},
    {SegmentKind::item, "item"},
    {SegmentKind::instruction, "instruction"},
    {SegmentKind::discriminant, "discriminant"},
    {SegmentKind::beam, "beam"}};

Scrub::Config scrub_config(const KvWorkerConfig& config) {
  Scrub::Config scrub = config.scrub;
  scrub.page_bytes = static_cast<std::uint64_t>(config.token_bytes * config.pool.page_tokens);
  return scrub;
}

}  // namespace

KvWorkerCore::KvWorkerCore(KvWorkerConfig config)
    : config_(std::move(config)),
      pool_(config_.pool, config_.incarnation),
      tier_(config_.tier),
      next_serial_(config_.incarnation + named_timers),
      rows_(config_.rows, config_.incarnation, config_.pool.pages),
      scrub_(scrub_config(config_), config_.pool.pages),
      samples_(config_.incarnation),
      pulls_(config_.pulling),
      metas_(config_.cache_metas),
      migration_(config_.node, config_.migration),
      wanted_(pool_.areas()),
      savings_(pool_.areas() - pool_.has_rows(), config_.pool.pages),
      counted_saved_us_(pool_.areas()) {
  sent_changes_.incarnation = config_.incarnation;
}

void KvWorkerCore::step(Instant now, Event&& event, Effects& effects) {
  if (const auto* received = std::get_if<Received>(&event)) {
    on_message(now, *received, effects);
  } else if (const auto* fired = std::get_if<TimerFired>(&event)) {
    on_timer(now, fired->timer, effects);
  } else if (const auto* done = std::get_if<JobDone>(&event)) {
    on_done(now, *done, effects);
  } else if (const auto* lost = std::get_if<PeerLost>(&event)) {
    lose(now, lost->node, effects);
  }
  if (config_.store) advance_store(now, effects);
  scrub(now, effects);
  lend_rows(now, false, effects);
  advance_migration(now, effects);
  report_changes(now, effects);
}

void KvWorkerCore::on_message(Instant now, const Received& received, Effects& effects) {
  const Message& message = received.message;
  if (const auto* ask = std::get_if<AcquireBlocks>(&message)) {
    on_acquire(now, received.from, *ask, effects);
  } else if (const auto* acquired = std::get_if<BlocksAcquired>(&message)) {
    on_acquired(now, received.from, *acquired, effects);
  } else if (const auto* release = std::get_if<ReleaseBlocks>(&message)) {
    on_release(now, received.from, *release, effects);
  } else if (const auto* request = std::get_if<StatusRequest>(&message)) {
    effects.send(received.from, status(now, request->id));
  } else if (const auto* lent = std::get_if<PagesLent>(&message)) {
    on_pages_lent(now, received.from, *lent, effects);
  } else if (const auto* drain = std::get_if<Drain>(&message);
             drain && received.from == Address{config_.node, Role::server}) {
    on_drain(now, received.from, *drain, effects);
  } else if (std::holds_alternative<SetSplit>(message) && received.from == allocator()) {
    on_split(std::get<SetSplit>(message), effects);
  } else {
    on_cache_meta(received, effects);
  }
}

void KvWorkerCore::on_timer(Instant now, std::uint64_t timer, Effects& effects) {
  if (timer == start_timer) return on_start(now, effects);
  if (timer == report_timer) return on_report_timer(now, effects);
  if (timer == heartbeat_timer) return on_heartbeat_timer(now, effects);
  on_request_timer(now, timer, effects);
  on_pull_timer(now, timer, effects);
}

void KvWorkerCore::on_start(Instant now, Effects& effects) {
  if (config_.store) {
    list_stored(effects);
  } else {
    ready_ = true;
  }
  on_report_timer(now, effects);
  beat_due_ = true;
  effects.set_timer(heartbeat_timer, now + config_.heartbeat);
}

void KvWorkerCore::on_request_timer(Instant now, Serial serial, Effects& effects) {
  const auto at = requests_.find(serial);
  if (at == requests_.end()) return;
  const Request& request = at->second;
  if (request.remote() && mutated(Mutant::keep_remote_pins)) return;
  if (request.remote() && now >= request.lease_ends) {
    effects.log(LogLevel::warning, "lease_ended", {{"request", request.ask.id}, {"node", request.from.node}});
    end_request(now, serial, {}, effects);
  } else if (now >= request.wait_deadline && !request.answered && !awaits_in_flight(request)) {
    end_wait(serial, effects);
  }
}

void KvWorkerCore::on_heartbeat_timer(Instant now, Effects& effects) {
  beat_due_ = now - changes_sent_at_ >= config_.heartbeat;
  effects.set_timer(heartbeat_timer, (beat_due_ ? now : changes_sent_at_) + config_.heartbeat);
}

void KvWorkerCore::on_done(Instant now, const JobDone& done, Effects& effects) {
  if (pulls_.find(done.job)) {
    on_pulled(now, done.job, pulls_.take(done.job), done.result, effects);
    run_pulls(now, effects);
  } else if (done.job == scrub_job_) {
    on_scrubbed(now, done.result, effects);
  } else {
    on_store_done(now, done, effects);
  }
}

// ---- areas and reports ----

// A split for an earlier process changes nothing, but its sender gets a report of this process.
void KvWorkerCore::on_split(const SetSplit& split, Effects& effects) {
  std::uint64_t left = pool_.pages();
  bool fits = split.areas.size() == pool_.areas();
  for (const AreaSplit& area : split.areas) {
    fits = fits && area.pages <= left;
    if (fits) left -= area.pages;
  }
  if (!fits) return effects.count(Metric::protocol_errors);
  if (split.incarnation == config_.incarnation && split.epoch > split_epoch_) {
    split_epoch_ = split.epoch;
    if (!boundary_moves_) boundary_moves_ = pool_.page_hashes();
    pool_.set_split(split.areas);
  }
  effects.send(allocator(), report());
}

void KvWorkerCore::on_report_timer(Instant now, Effects& effects) {
  PoolReport report = this->report();
  count_saved(report, effects);
  effects.send(allocator(), std::move(report));
  lend_rows(now, true, effects);
  effects.set_timer(report_timer, now + config_.report);
}

void KvWorkerCore::count_saved(const PoolReport& report, Effects& effects) {
  for (std::size_t i = 0; i < report.areas.size(); ++i) {
    const double us = report.areas[i].saved_us - counted_saved_us_[i];
    if (us <= 0) continue;
    effects.count(area_table[i].saved, us / 1e6);
    counted_saved_us_[i] += us;
  }
}

// ---- pages for rows ----

void KvWorkerCore::on_pages_lent(Instant now, Address from, const PagesLent& answer, Effects& effects) {
  if (from.role != Role::inference_worker || !rows_.answer(now, from.node, answer, pool_))
    effects.count(Metric::protocol_errors);
}

// A boundary move has ended when every borrower has its new share. Pages of blocks that moved
// meanwhile were copied.
void KvWorkerCore::lend_rows(Instant now, bool ask, Effects& effects) {
  if (!rows_.idle() && ready_) {
    const auto said = rows_.next(now, pool_, ask);
    for (const auto& [node, lend] : said) effects.send({node, Role::inference_worker}, lend);
    if (!said.empty()) effects.set_timer(lending_timer, now + rows_.retry());
  }
  if (!boundary_moves_ || (!rows_.idle() && !rows_.settled(pool_))) return;
  const std::uint64_t pages = pool_.pages_moved_since(*boundary_moves_);
  boundary_moves_.reset();
  const auto bytes =
      static_cast<std::uint64_t>(static_cast<double>(pages) * config_.token_bytes * pool_.page_tokens());
  boundary_bytes_copied_ += bytes;
  effects.count(Metric::boundary_bytes_copied, static_cast<double>(bytes));
}

PoolReport KvWorkerCore::report() const {
  PoolReport report{config_.incarnation, split_epoch_, wanted_};
  for (std::size_t i = 0; i < report.areas.size(); ++i) {
    report.areas[i].pages = pool_.cap(static_cast<PoolArea>(i));
    report.areas[i].used = pool_.used(static_cast<PoolArea>(i));
  }
  savings_.add_to(report.areas);
  report.served = savings_.served();
  if (pool_.has_rows()) rows_.add_to(report.areas[index_of(PoolArea::row)]);
  return report;
}

StatusReply KvWorkerCore::status(Instant now, RequestId id) const {
  StatusReply reply{id, config_.node, Role::kv_worker, ready_, {}};
  const auto field = [&](const char* name, std::uint64_t value) {
    reply.fields.push_back({name, std::to_string(value)});
  };
  const PoolReport pages = report();
  for (std::size_t i = 0; i < std::min(pages.areas.size(), std::size(area_table)); ++i) {
    const std::string area(area_table[i].name);
    field((area + "_pages").c_str(), pages.areas[i].pages);
    field((area + "_pages_used").c_str(), pages.areas[i].used);
    field((area + "_hits").c_str(), pages.areas[i].hits);
    field((area + "_misses").c_str(), pages.areas[i].misses);
    field((area + "_saved_ms").c_str(), static_cast<std::uint64_t>(pages.areas[i].saved_us / 1'000));
  }
  if (pool_.has_rows()) field("boundary_bytes_copied", boundary_bytes_copied_);
  if (savings_.elsewhere() > 0) field("uses_elsewhere", savings_.elsewhere());
  field("page_tokens", pool_.page_tokens());
  field("requests_holding", requests_.size());
  field("remote_reads", remote_reads_);
  field("blocks_in_the_making", pending_blocks_.size());
  if (config_.pull_parts > 1) field("blocks_read_while_they_come", in_flight_readers_.size());
  field("pulls", pulls_.size());
  if (migration_.begun()) {
    const Migration::Counts& counts = migration_.counts();
    reply.fields.push_back({"drained", migration_.done() ? "yes" : "no"});
    field("users_blocks", counts.blocks);
    field("users_blocks_handed_on", counts.migrated);
    field("users_blocks_held_elsewhere", counts.held_elsewhere);
    field("users_blocks_left_behind", counts.left_behind);
  }
  field("blocks_pulled", blocks_pulled_);
  field("blocks_corrupt", blocks_corrupt_);
  for (const auto& [kind, name] : kind_names)
    if (const PagePool::KindUsage held = pool_.held(kind); held.blocks > 0)
      reply.fields.push_back({"kind", std::string(name) + ": " + std::to_string(held.blocks) + " blocks, " +
                                          std::to_string(held.pages) + " pages"});
  field("leader_token", leader_token_);
  if (!config_.store) {
    reply.fields.push_back({"store", "off"});
    return reply;
  }
  reply.fields.push_back({"store", tier_.is_in_back_off(now) ? "resting after a failure" : "on"});
  field("blocks_stored", tier_.stored().blocks());
  field("saves_waiting", tier_.saves());
  return reply;
}

// ---- for checkers ----

std::size_t KvWorkerCore::waiting() const {
  return static_cast<std::size_t>(std::count_if(requests_.begin(), requests_.end(),
                                                [](const auto& entry) { return !entry.second.answered; }));
}

// Each block that is written, loaded or pulled has at least one page, which bounds the remaining
// containers.
std::string KvWorkerCore::check_bounds() const {
  const auto fault = [](const char* what, std::size_t is, std::size_t max) {
    return is <= max ? "" : std::string(what) + ": " + std::to_string(is) + " of " + std::to_string(max);
  };
  std::size_t waiters = 0;
  for (const auto& [name, pending] : pending_blocks_) waiters = std::max(waiters, pending.waiters.size());
  for (const std::string& found :
       {fault("requests", requests_.size(), config_.requests_max),
        fault("request ids", serials_.size(), requests_.size()),
        fault("remote reads", remote_reads_, config_.remote_reads_max),
        fault("blocks in the making", pending_blocks_.size(), pool_.pages()),
        fault("waiters for one block", waiters, config_.requests_max), pulls_.check_bounds(),
        migration_.check_bounds(),
        fault("blocks read while they come", in_flight_readers_.size(), pool_.pages()),
        fault("suspects", scrub_.suspects(), config_.scrub.suspects_max), tier_.check_bounds(pool_.pages())})
    if (!found.empty()) return found;
  return "";
}

}  // namespace troupe::actors
