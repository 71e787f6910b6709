// schema/cache.capnp: where blocks are, pinning and writing them.
#include "runtime/codec_fields.h"

namespace troupe::codec {

static_assert(static_cast<int>(schema::Grant::NONE) == static_cast<int>(Grant::none));
static_assert(static_cast<int>(schema::Grant::READ) == static_cast<int>(Grant::read));
static_assert(static_cast<int>(schema::Grant::WRITE) == static_cast<int>(Grant::write));
static_assert(static_cast<int>(schema::Outcome::DONE) == static_cast<int>(Outcome::done));
static_assert(static_cast<int>(schema::Outcome::WRITTEN) == static_cast<int>(Outcome::written));
static_assert(static_cast<int>(schema::Outcome::ABANDONED) == static_cast<int>(Outcome::abandoned));
static_assert(static_cast<int>(schema::Outcome::CORRUPT) == static_cast<int>(Outcome::corrupt));

void put(const LookupBlocks& m, schema::LookupBlocks::Builder to) {
  to.setId(m.id);
  to.setUser(wire(m.user));
  to.setUserBlock(wire(m.user_block));
  to.setUserTokens(m.user_tokens);
  put_list(m.item_blocks, to.initItemBlocks(m.item_blocks.size()));
  to.setCountAccess(m.count_access);
}
void get(schema::LookupBlocks::Reader from, LookupBlocks& m) {
  m.id = from.getId();
  get(from.getUser(), m.user);
  get(from.getUserBlock(), m.user_block);
  m.user_tokens = from.getUserTokens();
  get_list(from.getItemBlocks(), m.item_blocks);
  m.count_access = from.getCountAccess();
}

void put(const BlocksFound& m, schema::BlocksFound::Builder to) {
  to.setId(m.id);
  to.setUserNode(m.user_node);
  put_list(m.item_nodes, to.initItemNodes(m.item_nodes.size()));
  to.setUserFrequency(m.user_frequency);
  to.setColdestFrequency(m.coldest_frequency);
  put_list(m.coldest, to.initColdest(m.coldest.size()));
}
void get(schema::BlocksFound::Reader from, BlocksFound& m) {
  m.id = from.getId();
  m.user_node = from.getUserNode();
  get_list(from.getItemNodes(), m.item_nodes);
  m.user_frequency = from.getUserFrequency();
  m.coldest_frequency = from.getColdestFrequency();
  get_list(from.getColdest(), m.coldest);
}

void put(const BlockWant& m, schema::BlockWant::Builder to) {
  to.setName(wire(m.name));
  to.setKind(wire<schema::SegmentKind>(m.kind));
  to.setOwner(wire(m.owner));
  to.setTokens(m.tokens);
}
void get(schema::BlockWant::Reader from, BlockWant& m) {
  get(from.getName(), m.name);
  get(from.getKind(), m.kind);
  get(from.getOwner(), m.owner);
  m.tokens = from.getTokens();
}

void put(const AcquireBlocks& m, schema::AcquireBlocks::Builder to) {
  to.setId(m.id);
  to.setBudgetUs(m.budget_us);
  put_list(m.wants, to.initWants(m.wants.size()));
  put_list(m.evict_first, to.initEvictFirst(m.evict_first.size()));
  to.setMayEvict(m.may_evict);
}
void get(schema::AcquireBlocks::Reader from, AcquireBlocks& m) {
  m.id = from.getId();
  m.budget_us = from.getBudgetUs();
  get_list(from.getWants(), m.wants);
  get_list(from.getEvictFirst(), m.evict_first);
  m.may_evict = from.getMayEvict();
}

void put(const BlockGrant& m, schema::BlockGrant::Builder to) {
  to.setGrant(wire<schema::Grant>(m.grant));
  to.setGeneration(m.generation);
  to.setChecksum(m.checksum);
  put_list(m.pages, to.initPages(m.pages.size()));
}
void get(schema::BlockGrant::Reader from, BlockGrant& m) {
  get(from.getGrant(), m.grant);
  m.generation = from.getGeneration();
  m.checksum = from.getChecksum();
  get_list(from.getPages(), m.pages);
}

void put(const BlocksAcquired& m, schema::BlocksAcquired::Builder to) {
  to.setId(m.id);
  put_list(m.grants, to.initGrants(m.grants.size()));
}
void get(schema::BlocksAcquired::Reader from, BlocksAcquired& m) {
  m.id = from.getId();
  get_list(from.getGrants(), m.grants);
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

void put(const BlockAdded& m, schema::BlockAdded::Builder to) {
  to.setName(wire(m.name));
  to.setKind(wire<schema::SegmentKind>(m.kind));
  to.setOwner(wire(m.owner));
  to.setTokens(m.tokens);
  to.setGeneration(m.generation);
}
void get(schema::BlockAdded::Reader from, BlockAdded& m) {
  get(from.getName(), m.name);
  get(from.getKind(), m.kind);
  get(from.getOwner(), m.owner);
  m.tokens = from.getTokens();
  m.generation = from.getGeneration();
}

void put(const BlockRemoved& m, schema::BlockRemoved::Builder to) {
  to.setName(wire(m.name));
  to.setGeneration(m.generation);
}
void get(schema::BlockRemoved::Reader from, BlockRemoved& m) {
  get(from.getName(), m.name);
  m.generation = from.getGeneration();
}

void put(const UserArea& m, schema::UserArea::Builder to) {
  to.setFreeTokens(m.free_tokens);
  to.setTotalTokens(m.total_tokens);
}
void get(schema::UserArea::Reader from, UserArea& m) {
  m.free_tokens = from.getFreeTokens();
  m.total_tokens = from.getTotalTokens();
}

void put(const Forget& m, schema::Forget::Builder to) {
  to.setKind(wire<schema::SegmentKind>(m.kind));
  to.setOwner(wire(m.owner));
}
void get(schema::Forget::Reader from, Forget& m) {
  get(from.getKind(), m.kind);
  get(from.getOwner(), m.owner);
}

}  // namespace troupe::codec
