// Converts messages about finding, pinning and writing blocks to their Cap'n Proto form
// (schema/cache.capnp) and back. Blocks are the cached keys and values.
#include "runtime/wire/codec_fields.h"

namespace troupe::codec {

static_assert(static_cast<int>(schema::Grant::NONE) == static_cast<int>(Grant::none));
static_assert(static_cast<int>(schema::Grant::READ) == static_cast<int>(Grant::read));
static_assert(static_cast<int>(schema::Grant::WRITE) == static_cast<int>(Grant::write));
static_assert(static_cast<int>(schema::Outcome::DONE) == static_cast<int>(Outcome::done));
static_assert(static_cast<int>(schema::Outcome::WRITTEN) == static_cast<int>(Outcome::written));
static_assert(static_cast<int>(schema::Outcome::ABANDONED) == static_cast<int>(Outcome::abandoned));
static_assert(static_cast<int>(schema::Outcome::CORRUPT) == static_cast<int>(Outcome::corrupt));

void put(const BlockQuery& m, schema::BlockQuery::Builder to) {
  to.setName(wire(m.name));
  to.setKind(wire<schema::SegmentKind>(m.kind));
  to.setTokens(m.tokens);
}
void get(schema::BlockQuery::Reader from, BlockQuery& m) {
  get(from.getName(), m.name);
  get(from.getKind(), m.kind);
  m.tokens = from.getTokens();
}

void put(const LookupBlocks& m, schema::LookupBlocks::Builder to) {
  to.setId(m.id);
  to.setUser(wire(m.user));
  put_list(m.blocks, to.initBlocks(m.blocks.size()));
  put_list(m.prefer, to.initPrefer(m.prefer.size()));
  to.setCountAccess(m.count_access);
  to.setAllHolders(m.all_holders);
  put_trace(m, to);
}
void get(schema::LookupBlocks::Reader from, LookupBlocks& m) {
  m.id = from.getId();
  get(from.getUser(), m.user);
  get_list(from.getBlocks(), m.blocks);
  get_list(from.getPrefer(), m.prefer);
  m.count_access = from.getCountAccess();
  m.all_holders = from.getAllHolders();
  get_trace(from, m);
}

void put(const BlocksFound& m, schema::BlocksFound::Builder to) {
  to.setId(m.id);
  put_list(m.counts, to.initCounts(m.counts.size()));
  put_list(m.holders, to.initHolders(m.holders.size()));
  put_list(m.uses, to.initUses(m.uses.size()));
  to.setUserFrequency(m.user_frequency);
  to.setColdestFrequency(m.coldest_frequency);
  put_list(m.coldest, to.initColdest(m.coldest.size()));
}
void get(schema::BlocksFound::Reader from, BlocksFound& m) {
  m.id = from.getId();
  get_list(from.getCounts(), m.counts);
  get_list(from.getHolders(), m.holders);
  get_list(from.getUses(), m.uses);
  m.user_frequency = from.getUserFrequency();
  m.coldest_frequency = from.getColdestFrequency();
  get_list(from.getColdest(), m.coldest);
}

// Retention comes with the plans of routers and is forwarded with the wanted blocks.
void put(const BlockUse& m, schema::BlockUse::Builder to) {
  to.setName(wire(m.name));
  to.setTokens(m.tokens);
  to.setTimes(m.times);
  to.setSparedUs(m.spared_us);
}
void get(schema::BlockUse::Reader from, BlockUse& m) {
  get(from.getName(), m.name);
  m.tokens = from.getTokens();
  m.times = from.getTimes();
  m.spared_us = from.getSparedUs();
}

void put(const Retention& m, schema::Retention::Builder to) {
  put_list(m.evict_first, to.initEvictFirst(m.evict_first.size()));
  to.setKeepHotter(m.keep_hotter);
  to.setBelongs(m.belongs);
  to.setCopyWorth(m.copy_worth);
  to.setGuest(m.remote_home);
  if (!m.elsewhere.empty()) put_list(m.elsewhere, to.initElsewhere(m.elsewhere.size()));
}
void get(schema::Retention::Reader from, Retention& m) {
  get_list(from.getEvictFirst(), m.evict_first);
  m.keep_hotter = from.getKeepHotter();
  m.belongs = from.getBelongs();
  m.copy_worth = from.getCopyWorth();
  m.remote_home = from.getGuest();
  get_list(from.getElsewhere(), m.elsewhere);
}

void put(const BlockWant& m, schema::BlockWant::Builder to) {
  to.setName(wire(m.name));
  to.setKind(wire<schema::SegmentKind>(m.kind));
  to.setOwner(wire(m.owner));
  to.setTokens(m.tokens);
  to.setAt(m.at);
  to.setComputeUs(m.compute_us);
}
void get(schema::BlockWant::Reader from, BlockWant& m) {
  get(from.getName(), m.name);
  get(from.getKind(), m.kind);
  get(from.getOwner(), m.owner);
  m.tokens = from.getTokens();
  m.at = from.getAt();
  m.compute_us = from.getComputeUs();
}

void put(const AcquireBlocks& m, schema::AcquireBlocks::Builder to) {
  to.setId(m.id);
  to.setBudgetUs(m.budget_us);
  put_list(m.wants, to.initWants(m.wants.size()));
  put(m.retention, to.initRetention());
  to.setMayEvict(m.may_evict);
  to.setReadOnly(m.read_only);
  to.setEarly(m.early);
  put_trace(m, to);
}
void get(schema::AcquireBlocks::Reader from, AcquireBlocks& m) {
  m.id = from.getId();
  m.budget_us = from.getBudgetUs();
  get_list(from.getWants(), m.wants);
  get(from.getRetention(), m.retention);
  m.may_evict = from.getMayEvict();
  m.read_only = from.getReadOnly();
  m.early = from.getEarly();
  get_trace(from, m);
}

void put(const BlockGrant& m, schema::BlockGrant::Builder to) {
  to.setGrant(wire<schema::Grant>(m.grant));
  to.setGeneration(m.generation);
  to.setChecksum(m.checksum);
  put_list(m.pages, to.initPages(m.pages.size()));
  to.setCheck(m.check);
  to.setComing(m.in_flight);
  to.setPulled(m.pulled);
}
void get(schema::BlockGrant::Reader from, BlockGrant& m) {
  get(from.getGrant(), m.grant);
  m.generation = from.getGeneration();
  m.checksum = from.getChecksum();
  get_list(from.getPages(), m.pages);
  m.check = from.getCheck();
  m.in_flight = from.getComing();
  m.pulled = from.getPulled();
}

void put(const BlocksAcquired& m, schema::BlocksAcquired::Builder to) {
  to.setId(m.id);
  to.setIncarnation(m.incarnation);
  to.setLeaseUs(m.lease_us);
  put_list(m.grants, to.initGrants(m.grants.size()));
  to.setPullUs(m.pull_us);
}
void get(schema::BlocksAcquired::Reader from, BlocksAcquired& m) {
  m.id = from.getId();
  m.incarnation = from.getIncarnation();
  m.lease_us = from.getLeaseUs();
  get_list(from.getGrants(), m.grants);
  m.pull_us = from.getPullUs();
}

void put(const BlockOutcome& m, schema::BlockOutcome::Builder to) {
  to.setName(wire(m.name));
  to.setGeneration(m.generation);
  to.setOutcome(wire<schema::Outcome>(m.outcome));
  to.setChecksum(m.checksum);
}
void get(schema::BlockOutcome::Reader from, BlockOutcome& m) {
  get(from.getName(), m.name);
  m.generation = from.getGeneration();
  get(from.getOutcome(), m.outcome);
  m.checksum = from.getChecksum();
}

void put(const ReleaseBlocks& m, schema::ReleaseBlocks::Builder to) {
  to.setId(m.id);
  put_list(m.outcomes, to.initOutcomes(m.outcomes.size()));
}
void get(schema::ReleaseBlocks::Reader from, ReleaseBlocks& m) {
  m.id = from.getId();
  get_list(from.getOutcomes(), m.outcomes);
}

void put(const BlockEntry& m, schema::BlockEntry::Builder to) {
  to.setName(wire(m.name));
  to.setKind(wire<schema::SegmentKind>(m.kind));
  to.setOwner(wire(m.owner));
  to.setTokens(m.tokens);
  to.setGeneration(m.generation);
}
void get(schema::BlockEntry::Reader from, BlockEntry& m) {
  get(from.getName(), m.name);
  get(from.getKind(), m.kind);
  get(from.getOwner(), m.owner);
  m.tokens = from.getTokens();
  m.generation = from.getGeneration();
}

void put(const BlockVersion& m, schema::BlockVersion::Builder to) {
  to.setName(wire(m.name));
  to.setGeneration(m.generation);
}
void get(schema::BlockVersion::Reader from, BlockVersion& m) {
  get(from.getName(), m.name);
  m.generation = from.getGeneration();
}

void put(const AreaCapacity& m, schema::AreaCapacity::Builder to) {
  to.setFreeTokens(m.free_tokens);
  to.setTotalTokens(m.total_tokens);
}
void get(schema::AreaCapacity::Reader from, AreaCapacity& m) {
  m.free_tokens = from.getFreeTokens();
  m.total_tokens = from.getTotalTokens();
}

void put(const CacheChanges& m, schema::CacheChanges::Builder to) {
  to.setIncarnation(m.incarnation);
  to.setSequence(m.sequence);
  put_list(m.added, to.initAdded(m.added.size()));
  put_list(m.removed, to.initRemoved(m.removed.size()));
  put_list(m.areas, to.initAreas(m.areas.size()));
  put_list(m.refused, to.initRefused(m.refused.size()));
}
void get(schema::CacheChanges::Reader from, CacheChanges& m) {
  m.incarnation = from.getIncarnation();
  m.sequence = from.getSequence();
  get_list(from.getAdded(), m.added);
  get_list(from.getRemoved(), m.removed);
  get_list(from.getAreas(), m.areas);
  get_list(from.getRefused(), m.refused);
}

void put(const InventoryRequest& m, schema::InventoryRequest::Builder to) {
  to.setIncarnation(m.incarnation);
  to.setAfter(m.after);
}
void get(schema::InventoryRequest::Reader from, InventoryRequest& m) {
  m.incarnation = from.getIncarnation();
  m.after = from.getAfter();
}

void put(const InventoryPart& m, schema::InventoryPart::Builder to) {
  to.setIncarnation(m.incarnation);
  to.setAfter(m.after);
  to.setSequence(m.sequence);
  put_list(m.blocks, to.initBlocks(m.blocks.size()));
  to.setLast(m.last);
}
void get(schema::InventoryPart::Reader from, InventoryPart& m) {
  m.incarnation = from.getIncarnation();
  m.after = from.getAfter();
  m.sequence = from.getSequence();
  get_list(from.getBlocks(), m.blocks);
  m.last = from.getLast();
}

void put(const Forget& m, schema::Forget::Builder to) {
  to.setKind(wire<schema::SegmentKind>(m.kind));
  to.setOwner(wire(m.owner));
  to.setToken(m.token);
  if (m.present) to.setPresent(wire(m.present));
  to.setBelow(m.below);
}
void get(schema::Forget::Reader from, Forget& m) {
  get(from.getKind(), m.kind);
  get(from.getOwner(), m.owner);
  m.token = from.getToken();
  get(from.getPresent(), m.present);
  m.below = from.getBelow();
}

}  // namespace troupe::codec
