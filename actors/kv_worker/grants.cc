// Grants of the KV-cache worker: which wanted blocks a request may read or write, which it waits
// for, and what happens to them when it releases them.
#include "actors/kv_worker/grants.h"

#include <algorithm>
#include <span>

#include "actors/kv_worker/block_identity.h"

namespace troupe::actors {
namespace {

constexpr std::size_t uses_elsewhere_max = 256;

bool is_remote_home(const AcquireBlocks& ask, const BlockWant& want) {
  return ask.retention.remote_home && want.kind == SegmentKind::user;
}

// Finds outcomes of a release by generation, which identifies one block. Of several for one block
// the last one counts.
class Outcomes {
 public:
  explicit Outcomes(const std::vector<BlockOutcome>& outcomes) {
    for (const BlockOutcome& outcome : outcomes) sorted_.push_back(&outcome);
    std::sort(sorted_.begin(), sorted_.end(), [](const BlockOutcome* a, const BlockOutcome* b) {
      return a->generation != b->generation ? a->generation < b->generation : a < b;
    });
  }
  const BlockOutcome* find(std::uint64_t generation) const {
    const auto after = std::upper_bound(
        sorted_.begin(), sorted_.end(), generation,
        [](std::uint64_t wanted, const BlockOutcome* outcome) { return wanted < outcome->generation; });
    return after != sorted_.begin() && (*(after - 1))->generation == generation ? *(after - 1) : nullptr;
  }

 private:
  std::vector<const BlockOutcome*> sorted_;
};

}  // namespace

Grants::Grants(const KvWorkerConfig& config, const Parts& parts)
    : config_(config),
      parts_(parts),
      savings_(parts.pool.areas() - parts.pool.has_rows(), config.pool.pages) {}

// ---- acquire ----

Grants::Fetches Grants::acquire(Instant now, Address from, AcquireBlocks&& asked, Effects& effects) {
  const bool offered = is_offer(from, asked);
  const bool remote =
      offered || (from.role == Role::kv_worker && from.node != config_.node && asked.read_only);
  if (!remote && !parts_.requests.is_inference_worker(from)) {
    effects.count(Metric::protocol_errors);
    return {};
  }
  if (const auto known = parts_.requests.serial_of(from, asked.id)) {
    const Request& request = *parts_.requests.find(*known);
    if (request.answered) parts_.requests.send_grants(request, effects);
    return {};
  }
  if (parts_.requests.is_full(remote)) {
    parts_.requests.refuse(from, asked, effects);
    return {};
  }
  const Serial serial = parts_.serials.next();
  Request& request = parts_.requests.add(now, from, std::move(asked), serial);
  const AcquireBlocks& ask = request.ask;
  request.offered = offered;
  if (!offered) parts_.reservations.count_wants(ask);
  if (!remote) count_uses_elsewhere(ask);
  const std::vector<std::size_t> absent = decide_present(now, serial, request, effects);
  if (ask.trace.sampled)
    effects.log(LogLevel::debug, "blocks_wanted",
                {{"request", ask.id},
                 {"trace_id", trace_id(ask.trace)},
                 {"from", from.node},
                 {"wants", ask.wants.size()},
                 {"absent", absent.size()}});
  return ask.read_only ? Fetches{.request = serial} : decide_absent(now, serial, request, absent, effects);
}

void Grants::settle(Serial serial, Effects& effects) {
  const Request& request = *parts_.requests.find(serial);
  if (request.remote()) effects.set_timer(serial, request.lease_ends);
  if (request.undecided == 0) return parts_.requests.answer(serial, effects);
  effects.set_timer(serial, request.wait_deadline);
  parts_.pending.announce(serial, effects);
}

// Returns true if all wanted blocks are user blocks in the memory of the sender, a leaving worker.
// An offer writes nothing.
bool Grants::is_offer(Address from, const AcquireBlocks& ask) const {
  if (from.role != Role::kv_worker || from.node == config_.node || ask.read_only || ask.early ||
      !config_.pulls)
    return false;
  return !ask.wants.empty() && std::ranges::all_of(ask.wants, [&](const BlockWant& want) {
    return want.at == from.node && want.kind == SegmentKind::user;
  });
}

// Looks up all blocks that a request wants. A request wants about a hundred of ten thousand blocks,
// so each one's memory is prefetched while the others are looked up.
std::vector<const PoolBlock*> Grants::find_wanted(const AcquireBlocks& ask) const {
  std::vector<const PoolBlock*> found(ask.wants.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    found[i] = parts_.pool.find(ask.wants[i].name);
    if (found[i] != nullptr) parts_.pool.prefetch(*found[i]);
  }
  for (const PoolBlock* block : found)
    if (block != nullptr) parts_.pool.prefetch_neighbours(*block);
  return found;
}

// Returns the indices of absent wants. A request for a block that belongs here makes a copy the
// node's own block.
std::vector<std::size_t> Grants::decide_present(Instant now, Serial serial, Request& request,
                                                Effects& effects) {
  const AcquireBlocks& ask = request.ask;
  std::vector<std::size_t> absent;
  request.counts = ask.may_evict && !ask.read_only && !ask.retention.belongs;
  const std::vector<const PoolBlock*> found = find_wanted(ask);
  for (std::size_t i = 0; i < ask.wants.size(); ++i) {
    const BlockWant& want = ask.wants[i];
    const PoolBlock* block = found[i];
    const bool here = block && same_block(block->name, want.name);
    const bool ready = here && block->state == BlockState::ready;
    if (request.counts) count_use(request, want, ready);
    if (!block) absent.push_back(i);  // a different block with a colliding name is rare, and stays
    if (!here || block->tokens != want.tokens || block->kind != want.kind) continue;
    if (ready) {
      if (ask.retention.belongs && block->is_copy()) parts_.pool.keep(*block);
      request.holds[i] = parts_.requests.read(*block, request.remote(), effects);
    } else if (ask.budget_us > 0 && !ask.read_only && !parts_.pending.is_slow_pull(now, want.name, request)) {
      parts_.pending.wait(serial, request, i);
      effects.count(Metric::blocks_waited);
    }
  }
  return absent;
}

// Prefers pulling from another node to loading: the disk is slower.
Grants::Fetches Grants::decide_absent(Instant now, Serial serial, Request& request,
                                      const std::vector<std::size_t>& absent, Effects& effects) {
  Fetches fetches{.request = serial};
  const bool patient = request.ask.budget_us > 0;
  for (const std::size_t i : absent) {
    const BlockWant& want = request.ask.wants[i];
    if (parts_.pool.find(want.name)) continue;  // wanted twice
    const std::size_t pulls_more = fetches.pulls.contains(want.at) ? 0 : fetches.pulls.size() + 1;
    const bool pulled = patient && may_pull(now, want, pulls_more);
    if (request.offered && !pulled) continue;
    const bool loaded = patient && !pulled && parts_.tier.may_load(now, want);
    const BlockSource source = pulled   ? BlockSource::pulled
                               : loaded ? BlockSource::loaded
                                        : BlockSource::computed;
    const PoolBlock* block = parts_.pending.reserve(request, i, source, effects);
    if (!block) continue;
    if (pulled) fetches.pulls[want.at].push_back(block);
    if (loaded) fetches.loads.push_back(block);
    if (pulled || loaded)
      parts_.pending.wait(serial, request, i);
    else
      request.holds[i] = {.grant = Grant::write, .generation = block->generation};
  }
  return fetches;
}

bool Grants::may_pull(Instant now, const BlockWant& want, std::size_t pulls_more) const {
  if (!config_.pulls || want.at == 0 || want.at == config_.node) return false;
  return parts_.pulls.may_ask(now, want.at, pulls_more);
}

void Grants::count_use(Request& request, const BlockWant& want, bool hit) {
  savings_.use(index_of(parts_.pool.area_of(want.kind)), want, parts_.pool.pages_for(want.tokens), hit,
               is_remote_home(request.ask, want));
  if (want.kind != SegmentKind::user) return;
  if (request.user == 0) request.user = AreaSavings::user_key(want.owner);
  request.user_tokens += want.tokens;
}

// Counts a router's report of uses by users of this home that other nodes served. Reads no more
// entries than routers send.
void Grants::count_uses_elsewhere(const AcquireBlocks& ask) {
  const std::span<const BlockUse> uses(ask.retention.elsewhere);
  for (const BlockUse& use : uses.first(std::min(uses.size(), uses_elsewhere_max)))
    savings_.use_elsewhere(index_of(parts_.pool.area_of(SegmentKind::user)), use,
                           parts_.pool.pages_for(use.tokens));
}

// ---- ends ----

void Grants::on_timer(Instant now, Serial serial, Effects& effects) {
  const Request* request = parts_.requests.find(serial);
  if (!request) return;
  if (request->remote() && now >= request->lease_ends) {
    effects.log(LogLevel::warning, "lease_ended",
                {{"request", request->ask.id}, {"node", request->from.node}});
    end_request(now, serial, {}, effects);
  } else if (now >= request->wait_deadline && !request->answered &&
             !parts_.pending.awaits_in_flight(*request)) {
    parts_.pending.end_wait(serial, effects);
  }
}

void Grants::release(Instant now, Address from, const ReleaseBlocks& release, Effects& effects) {
  // An unknown id is a duplicate, or arrives after the lease ended.
  if (const auto known = parts_.requests.serial_of(from, release.id))
    end_request(now, *known, release, effects);
}

// A block that the release does not name was read without a check, or was not written.
void Grants::end_request(Instant now, Serial serial, const ReleaseBlocks& release, Effects& effects) {
  const Request request = parts_.requests.take(serial);
  if (request.counts) savings_.served(request.user, request.user_tokens, now - request.received);
  for (const Hold& hold : request.holds)
    if (hold.grant == Grant::read) parts_.pool.prefetch(*hold.block);
  const Outcomes outcomes(release.outcomes);
  for (std::size_t i = 0; i < request.holds.size(); ++i) {
    const Hold& hold = request.holds[i];
    if (hold.in_flight != 0) parts_.in_flight.end(hold.in_flight);
    if (hold.grant == Grant::none) continue;
    const BlockOutcome* outcome = outcomes.find(hold.generation);
    if (outcome && hold.grant == Grant::read && !identical(outcome->name, hold.block->name))
      outcome = nullptr;
    if (hold.grant == Grant::read) end_read(request, hold, outcome, effects);
    if (hold.grant == Grant::write) end_write(request, i, outcome, effects);
  }
}

// A block that a remote reader found corrupt may have been damaged on its way. It stays, and is
// verified here.
void Grants::end_read(const Request& request, const Hold& hold, const BlockOutcome* outcome,
                      Effects& effects) {
  const PoolBlock& block = *hold.block;
  if (outcome && outcome->outcome == Outcome::corrupt) {
    if (request.remote()) {
      parts_.corrupt.report(block.name, "node " + std::to_string(request.from.node), effects);
      parts_.scrub.suspect(block.generation);
    } else if (!block.removed) {
      parts_.corrupt.quarantine(block, effects);
    }
  } else if (outcome && outcome->outcome == Outcome::done && hold.check) {
    parts_.pool.set_checked(block);
  }
  parts_.pool.unpin(block);
}

void Grants::end_write(const Request& request, std::size_t index, const BlockOutcome* outcome,
                       Effects& effects) {
  const BlockWant& want = request.ask.wants[index];
  const std::uint64_t generation = request.holds[index].generation;
  const bool written = outcome && outcome->outcome == Outcome::written && identical(outcome->name, want.name);
  if (written && parts_.pool.commit(want.name, generation, outcome->checksum)) {
    parts_.pending.finish(want.name, generation, false, effects);
    if (config_.store && want.kind != SegmentKind::user) parts_.tier.want_save(want.name);
  } else if (parts_.pool.abandon(want.name, generation)) {  // false if forgotten while being written
    parts_.pending.fail(want.name, generation, effects);
  }
}

}  // namespace troupe::actors
