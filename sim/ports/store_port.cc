// Simulates the disk of a KV-cache worker and its reads of other nodes' pages. Jobs act at begin
// and end, so that faults can come between and must be detected.
#include "sim/ports/store_port.h"

#include <algorithm>

#include "kernels/base/check.h"
#include "runtime/actor/block_name.h"

namespace troupe::sim {
namespace {

Refusal bad_pages() {
  return {RefusalKind::internal, "bad_pages",
          "a page is outside the arena, or the number of pages does not match the tokens", "simulated store",
          "pages of the arena"};
}
Refusal storage_failed() {
  return {RefusalKind::unavailable, "storage_failed", "the disk fails", "simulated disk",
          "a working disk with free space"};
}
Refusal unreachable(NodeId node) {
  return {RefusalKind::unavailable, "peer_unreachable", "node " + std::to_string(node) + " cannot be read",
          "simulated transfer", "a living peer with the requested incarnation"};
}

std::size_t half_of(std::size_t pages) { return (pages + 1) / 2; }

Duration times(double us, double factor) { return {static_cast<std::int64_t>(us * factor)}; }

}  // namespace

bool SimStorePort::hold(const Pages& arena, std::span<const std::uint32_t> pages, std::size_t tokens) const {
  return arena.hold(pages, options_.counts_pages ? tokens * arena.page_tokens() : tokens);
}

SimStorePort::SimStorePort(SimStoreOptions options, Pages& pages, SimDisk& disk, SimNetwork& network,
                           const PageRegistry& peers, const TransferFaults& faults, Violations& violations)
    : options_(std::move(options)),
      pages_(pages),
      disk_(disk),
      network_(network),
      peers_(peers),
      faults_(faults),
      violations_(violations),
      random_(options_.seed, mix(options_.node, 0x5706)) {
  TROUPE_CHECK(options_.now, "`now` must be set");
}

// ---- the start of a job ----

std::optional<Duration> SimStorePort::begin(Instant now, const Job& job, std::uint32_t slot) {
  Running& running = running_[slot] = Running{};
  if (const auto* pull = std::get_if<PullBlocks>(&job)) {
    const Duration takes = begin_pull(now, *pull, running);
    for (const PullBlocks::One& one : pull->blocks)
      if (pull->parts > 1) pages_.begin_arrival(one.here, {now.us, now.us + takes.us, false, false, {}});
    return takes;
  }
  if (const auto* load = std::get_if<LoadBlocks>(&job)) {
    begin_load(*load, running);
    return time_of(now, *load);
  }
  if (const auto* check = std::get_if<CheckBlocks>(&job)) {
    for (const CheckBlocks::One& one : check->blocks) watch(one.pages, running);
    return time_of(*check);
  }
  if (const auto* save = std::get_if<SaveBlock>(&job)) {
    if (dies_in(*save)) return std::nullopt;
    watch(save->pages, running);
    return disk_time(now, save->pages.size());
  }
  return disk_time(now, 0);
}

bool SimStorePort::dies_in(const SaveBlock& save) {
  if (disk_.faults().torn != SimDisk::Torn::by_death || disk_.faults().failing) return false;
  if (!hold(pages_, save.pages, save.block.tokens)) return false;
  tear(save);
  return true;
}

void SimStorePort::tear(const SaveBlock& save) {
  disk_.put_torn({save.block, pages_.read(save.pages)}, random_);
  if (options_.on_struck) options_.on_struck(options_.node, FaultKind::torn_save);
}

bool SimStorePort::loses_load() {
  if (!chance(random_, disk_.faults().loads_lost)) return false;
  if (options_.on_struck) options_.on_struck(options_.node, FaultKind::load_failing);
  return true;
}

constexpr Duration copy_ends{300'000};  // time after its lease until a copy ends, whatever is still missing

Duration SimStorePort::disk_time(Instant now, std::uint64_t pages) const {
  const double bytes = static_cast<double>(pages * options_.page_bytes);
  const double us = static_cast<double>(options_.disk_latency.us) + bytes / options_.disk_bytes_per_us;
  return disk_.faults().slowness.stretch(now, {static_cast<std::int64_t>(us)});
}

Duration SimStorePort::time_of(Instant now, const LoadBlocks& load) const {
  std::uint64_t pages = 0;
  for (const LoadBlocks::One& one : load.blocks) pages += one.pages.size();
  return disk_time(now, pages);
}

void SimStorePort::begin_load(const LoadBlocks& load, Running& running) {
  for (const LoadBlocks::One& one : load.blocks) {
    if (!hold(pages_, one.pages, one.tokens)) continue;
    const SimDisk::Record* record = disk_.find(one.name);
    const std::size_t half = record ? half_of(std::min(one.pages.size(), record->pages.size())) : 0;
    for (std::size_t i = 0; i < half; ++i) pages_.copy(one.pages[i], record->pages[i]);
    watch(one.pages, running);
  }
}

// Reads the first half of each block's pages.
Duration SimStorePort::begin_pull(Instant now, const PullBlocks& pull, Running& running) {
  running.lease_end = local_now() + Duration{pull.budget_us};
  running.may_have_waited = now == last_end_;
  running.reset = chance(random_, faults_.reset);
  const Duration given_up{std::clamp<std::int64_t>(pull.budget_us, 0, options_.unreachable.us)};
  std::uint64_t page_count = 0;
  for (const PullBlocks::One& one : pull.blocks) page_count += one.from.size();
  const std::uint64_t bytes = page_count * options_.page_bytes;
  bytes_asked_ += bytes;
  const auto time = network_.transfer(now, pull.node, options_.node, options_.pulls_take_time ? bytes : 0);
  if (!time) return given_up;
  const PageRegistry::Entry* peer = peers_.find(pull.node);
  if (!peer || peer->incarnation != pull.incarnation) return *time;
  running.remote.resize(pull.blocks.size());
  for (std::size_t b = 0; b < pull.blocks.size(); ++b) {
    const PullBlocks::One& one = pull.blocks[b];
    running.corrupted.push_back(chance(random_, faults_.corrupted));
    if (!hold(*peer->pages, one.from, one.tokens) || !hold(pages_, one.to, one.tokens)) continue;
    running.remote[b] = peer->pages->read(one.from);
    for (std::size_t i = 0; i < half_of(one.to.size()); ++i) pages_.copy(one.to[i], running.remote[b][i]);
    watch(one.to, running);
  }
  const Duration taken =
      times(static_cast<double>(time->us), running.reset ? faults_.slowness / 2 : faults_.slowness);
  return {std::min(taken.us, pull.budget_us + copy_ends.us)};
}

void SimStorePort::watch(std::span<const std::uint32_t> ids, Running& running) const {
  for (const std::uint32_t id : ids)
    if (id >= pages_.count()) return;
  running.snapshots.push_back({{ids.begin(), ids.end()}, pages_.read(ids)});
}

// ---- the end of a job ----

JobResult SimStorePort::run(const Job& job, std::uint32_t slot) {
  auto running = running_.extract(slot);
  TROUPE_CHECK(!running.empty(), "begin() must be called before run()");
  last_end_ = options_.now();
  if (const auto* wanted = std::get_if<PullBlocks>(&job)) {
    JobResult result = pull(*wanted, running.mapped());
    end_arrivals(*wanted, result, running.mapped());
    return result;
  }
  check_snapshots(running.mapped(), std::holds_alternative<SaveBlock>(job)     ? "saved"
                                    : std::holds_alternative<CheckBlocks>(job) ? "checked"
                                                                               : "loaded");
  if (const auto* wanted = std::get_if<CheckBlocks>(&job)) return check(*wanted);
  if (std::holds_alternative<ListStored>(job)) return list();
  if (const auto* wanted = std::get_if<SaveBlock>(&job)) return save(*wanted);
  if (const auto* wanted = std::get_if<LoadBlocks>(&job)) return load(*wanted);
  if (const auto* wanted = std::get_if<EraseBlocks>(&job)) return erase(*wanted);
  return Refusal{RefusalKind::internal, "wrong_port", "this job is for another port", "simulated store",
                 "CheckBlocks, ListStored, SaveBlock, LoadBlocks, EraseBlocks or PullBlocks"};
}

void SimStorePort::check_snapshots(const Running& running, std::string_view what) {
  for (const PageSnapshot& snapshots : running.snapshots)
    if (pages_.rewritten(snapshots.ids, snapshots.pages))
      violations_.report(3,
                         "node " + std::to_string(options_.node) + ": page " +
                             std::to_string(snapshots.ids[0]) +
                             " and those after it changed while they were " + std::string(what),
                         options_.now());
}

// ---- the disk ----

JobResult SimStorePort::list() {
  if (disk_.faults().failing) return storage_failed();
  StoredList list;
  std::vector<BlockName> bad;
  for (const auto& [name, record] : disk_.records())
    if (identical(name, record.block.name))
      list.blocks.push_back(record.block);
    else
      bad.push_back(name);
  for (const BlockName& name : bad) quarantine(name);
  return list;
}

JobResult SimStorePort::save(const SaveBlock& save) {
  if (!hold(pages_, save.pages, save.block.tokens)) return bad_pages();
  if (disk_.faults().failing) return storage_failed();
  if (pages_.checksum(save.pages) != save.block.checksum)
    return BlockSaveResult{false, "the pages do not match their checksum", true};
  if (disk_.faults().torn != SimDisk::Torn::none) {
    tear(save);
    return BlockSaveResult{false, "disk full", false, true};
  }
  if (!disk_.put({save.block, pages_.read(save.pages)}))
    return BlockSaveResult{false, "disk full", false, true};
  return BlockSaveResult{true};
}

JobResult SimStorePort::load(const LoadBlocks& load) {
  for (const LoadBlocks::One& one : load.blocks)
    if (!hold(pages_, one.pages, one.tokens)) return bad_pages();
  if (disk_.faults().failing) return storage_failed();
  BlockLoadResult loaded;
  for (const LoadBlocks::One& one : load.blocks) loaded.found.push_back(load_one(one));
  return loaded;
}

BlockLoad SimStorePort::load_one(const LoadBlocks::One& one) {
  const SimDisk::Record* record = disk_.find(one.name);
  if (!record) return BlockLoad::gone;
  if (loses_load()) return BlockLoad::corrupt;
  if (!identical(record->block.name, one.name) || record->pages.size() != one.pages.size()) {
    quarantine(one.name);
    return BlockLoad::corrupt;
  }
  if (record->block.tokens != one.tokens) return BlockLoad::gone;  // valid, but not the requested size
  for (std::size_t i = 0; i < one.pages.size(); ++i) pages_.copy(one.pages[i], record->pages[i]);
  if (record->block.checksum != one.checksum) return BlockLoad::gone;
  if (pages_.checksum(one.pages) == one.checksum) return BlockLoad::sound;
  quarantine(one.name);
  return BlockLoad::corrupt;
}

JobResult SimStorePort::erase(const EraseBlocks& erase) {
  if (disk_.faults().failing) return storage_failed();
  for (const BlockName& name : erase.names) disk_.erase(name);
  return BlockEraseResult{};
}

void SimStorePort::quarantine(const BlockName& name) {
  ++quarantined_;
  disk_.erase(name);
}

// ---- memory ----

Duration SimStorePort::time_of(const CheckBlocks& check) const {
  std::uint64_t pages = 0;
  for (const CheckBlocks::One& one : check.blocks) pages += one.pages.size();
  return times(static_cast<double>(pages * options_.page_bytes), 1 / options_.memory_bytes_per_us);
}

JobResult SimStorePort::check(const CheckBlocks& check) {
  BlockCheckResult checked{{}, time_of(check).us};
  for (const CheckBlocks::One& one : check.blocks)
    checked.ok.push_back(pages_.checksum(one.pages) == one.checksum);
  return checked;
}

// ---- other nodes' pages ----

JobResult SimStorePort::pull(const PullBlocks& pull, const Running& running) {
  check_snapshots(running, "pulled into");
  const PageRegistry::Entry* peer = peers_.find(pull.node);
  const bool cut = network_.is_cut(pull.node, options_.node) || network_.is_cut(options_.node, pull.node);
  if (cut || running.reset || running.remote.empty() || !peer || peer->incarnation != pull.incarnation)
    return unreachable(pull.node);
  PullResult pulled;
  for (std::size_t b = 0; b < pull.blocks.size(); ++b) {
    const bool good = !running.remote[b].empty() && pull_one(pull.blocks[b], running, b, *peer->pages);
    if (!good) ++bad_transfers_;
    pulled.ok.push_back(good);
  }
  return pulled;
}

// Like a real transport, which knows the lease: content that arrives after it is discarded.
void SimStorePort::end_arrivals(const PullBlocks& pull, const JobResult& result, const Running& running) {
  const auto* pulled = std::get_if<PullResult>(&result);
  const bool late = local_now() > running.lease_end;
  for (std::size_t b = 0; b < pull.blocks.size(); ++b)
    if (hold(pages_, pull.blocks[b].to, pull.blocks[b].tokens))
      pages_.end_arrival(pull.blocks[b].here, pulled && pulled->ok[b] && !late, pull.blocks[b].to);
}

// Reads the second half of the pages, then checks all of them.
bool SimStorePort::pull_one(const PullBlocks::One& one, const Running& running, std::size_t index,
                            const Pages& remote) {
  const std::vector<Page>& before = running.remote[index];
  const bool late = local_now() > running.lease_end;
  if (!late && !running.may_have_waited && remote.rewritten(one.from, before))
    violations_.report(3,
                       "node " + std::to_string(options_.node) + ": the block " +
                           to_hex(one.name).substr(0, 8) + " changed under its lease while it was pulled",
                       options_.now());
  const std::size_t half = half_of(one.to.size());
  for (std::size_t i = 0; i < one.to.size(); ++i)
    pages_.copy(one.to[i], i < half ? before[i] : remote.at(one.from[i]), late);
  if (running.corrupted[index]) pages_.flip(one.to[random_.below(one.to.size())], random_.next());
  return pages_.checksum(one.to) == one.checksum;
}

}  // namespace troupe::sim
