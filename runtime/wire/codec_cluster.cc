// Converts messages about the cluster to their Cap'n Proto form (schema/cluster.capnp) and back:
// the split of each node's memory, liveness, versions and status.
#include "runtime/wire/codec_fields.h"

namespace troupe::codec {

static_assert(static_cast<int>(schema::Role::DOOR) == static_cast<int>(Role::server));
static_assert(static_cast<int>(schema::Role::ROUTER) == static_cast<int>(Role::router));
static_assert(static_cast<int>(schema::Role::CACHE_META) == static_cast<int>(Role::cache_meta));
static_assert(static_cast<int>(schema::Role::KV_WORKER) == static_cast<int>(Role::kv_worker));
static_assert(static_cast<int>(schema::Role::INFERENCE_WORKER) == static_cast<int>(Role::inference_worker));
static_assert(static_cast<int>(schema::Role::ALLOCATOR) == static_cast<int>(Role::allocator));

void put(const AreaSplit& m, schema::AreaSplit::Builder to) {
  to.setPages(m.pages);
  to.setLeast(m.least);
}
void get(schema::AreaSplit::Reader from, AreaSplit& m) {
  m.pages = from.getPages();
  m.least = from.getLeast();
}

void put(const SetSplit& m, schema::SetSplit::Builder to) {
  to.setIncarnation(m.incarnation);
  to.setEpoch(m.epoch);
  put_list(m.areas, to.initAreas(m.areas.size()));
}
void get(schema::SetSplit::Reader from, SetSplit& m) {
  m.incarnation = from.getIncarnation();
  m.epoch = from.getEpoch();
  get_list(from.getAreas(), m.areas);
}

void put(const AreaReport& m, schema::AreaReport::Builder to) {
  to.setPages(m.pages);
  to.setUsed(m.used);
  to.setHits(m.hits);
  to.setMisses(m.misses);
  to.setSavedUs(m.saved_us);
  put_list(m.savings, to.initSavings(m.savings.size()));
}
void get(schema::AreaReport::Reader from, AreaReport& m) {
  m.pages = from.getPages();
  m.used = from.getUsed();
  m.hits = from.getHits();
  m.misses = from.getMisses();
  m.saved_us = from.getSavedUs();
  get_list(from.getSavings(), m.savings);
}

void put(const ServedReport& m, schema::ServedReport::Builder to) {
  to.setRequests(m.requests);
  to.setHotRequests(m.hot_requests);
  to.setUserTokens(m.user_tokens);
  put_list(m.latencies, to.initLatencies(m.latencies.size()));
}
void get(schema::ServedReport::Reader from, ServedReport& m) {
  m.requests = from.getRequests();
  m.hot_requests = from.getHotRequests();
  m.user_tokens = from.getUserTokens();
  get_list(from.getLatencies(), m.latencies);
}

void put(const PoolReport& m, schema::PoolReport::Builder to) {
  to.setIncarnation(m.incarnation);
  to.setEpoch(m.epoch);
  put_list(m.areas, to.initAreas(m.areas.size()));
  put(m.served, to.initServed());
}
void get(schema::PoolReport::Reader from, PoolReport& m) {
  m.incarnation = from.getIncarnation();
  m.epoch = from.getEpoch();
  get_list(from.getAreas(), m.areas);
  get(from.getServed(), m.served);
}

void put(const LendPages& m, schema::LendPages::Builder to) {
  to.setIncarnation(m.incarnation);
  to.setNumber(m.number);
  put_list(m.pages, to.initPages(m.pages.size()));
  to.setGiveBack(m.give_back);
}
void get(schema::LendPages::Reader from, LendPages& m) {
  m.incarnation = from.getIncarnation();
  m.number = from.getNumber();
  get_list(from.getPages(), m.pages);
  m.give_back = from.getGiveBack();
}

void put(const PagesLent& m, schema::PagesLent::Builder to) {
  to.setIncarnation(m.incarnation);
  to.setNumber(m.number);
  put_list(m.given_back, to.initGivenBack(m.given_back.size()));
  to.setHits(m.hits);
  to.setMisses(m.misses);
  to.setSavedUs(m.saved_us);
  put_list(m.savings, to.initSavings(m.savings.size()));
}
void get(schema::PagesLent::Reader from, PagesLent& m) {
  m.incarnation = from.getIncarnation();
  m.number = from.getNumber();
  get_list(from.getGivenBack(), m.given_back);
  m.hits = from.getHits();
  m.misses = from.getMisses();
  m.saved_us = from.getSavedUs();
  get_list(from.getSavings(), m.savings);
}

void put(const Heartbeat& m, schema::Heartbeat::Builder to) {
  to.setIncarnation(m.incarnation);
  to.setDraining(m.draining);
  to.setLanes(m.slots);
  to.setLanesBusy(m.slots_busy);
  to.setPlansWaiting(m.plans_waiting);
  to.setOperationsWaiting(m.operations_waiting);
  to.setBytesWaiting(m.bytes_waiting);
  to.setPassesWaiting(m.passes_waiting);
  to.setUsPerOperation(m.us_per_operation);
  to.setUsPerByte(m.us_per_byte);
  to.setUsPerPass(m.us_per_pass);
  to.setPlansExecuted(m.plans_executed);
  to.setVersionsEpoch(m.versions_epoch);
  put_list(m.models, to.initModels(m.models.size()));
  to.setRefusedModel(wire(m.refused_model));
  to.setRefusedWhy(wire(m.refused_why));
  to.setSequence(m.sequence);
  to.setUsPerRow(m.us_per_row);
  to.setShardRows(m.shard_rows);
  if (!m.rows_found.empty()) put_list(m.rows_found, to.initRowsFound(m.rows_found.size()));
}
void get(schema::Heartbeat::Reader from, Heartbeat& m) {
  m.incarnation = from.getIncarnation();
  m.draining = from.getDraining();
  m.slots = from.getLanes();
  m.slots_busy = from.getLanesBusy();
  m.plans_waiting = from.getPlansWaiting();
  m.operations_waiting = from.getOperationsWaiting();
  m.bytes_waiting = from.getBytesWaiting();
  m.passes_waiting = from.getPassesWaiting();
  m.us_per_operation = from.getUsPerOperation();
  m.us_per_byte = from.getUsPerByte();
  m.us_per_pass = from.getUsPerPass();
  m.plans_executed = from.getPlansExecuted();
  m.versions_epoch = from.getVersionsEpoch();
  get_list(from.getModels(), m.models);
  get(from.getRefusedModel(), m.refused_model);
  get(from.getRefusedWhy(), m.refused_why);
  m.sequence = from.getSequence();
  m.us_per_row = from.getUsPerRow();
  m.shard_rows = from.getShardRows();
  get_list(from.getRowsFound(), m.rows_found);
}

void put(const Versions& m, schema::Versions::Builder to) {
  to.setEpoch(m.epoch);
  to.setModelVersion(wire(m.model_version));
  to.setCatalogVersion(wire(m.catalog_version));
  to.setNextModel(wire(m.next_model));
  to.setNextCatalog(wire(m.next_catalog));
  to.setNextShare(m.next_share);
}
void get(schema::Versions::Reader from, Versions& m) {
  m.epoch = from.getEpoch();
  get(from.getModelVersion(), m.model_version);
  get(from.getCatalogVersion(), m.catalog_version);
  get(from.getNextModel(), m.next_model);
  get(from.getNextCatalog(), m.next_catalog);
  m.next_share = from.getNextShare();
}

void put(const Loss& m, schema::Loss::Builder to) {
  to.setNode(m.node);
  to.setProcess(m.process);
  to.setProof(m.proof);
}
void get(schema::Loss::Reader from, Loss& m) {
  m.node = from.getNode();
  m.process = from.getProcess();
  m.proof = from.getProof();
}

void put(const Strike& m, schema::Strike::Builder to) {
  put_list(m.losses, to.initLosses(m.losses.size()));
  to.setSure(m.sure);
}
void get(schema::Strike::Reader from, Strike& m) {
  get_list(from.getLosses(), m.losses);
  m.sure = from.getSure();
}

void put(const Suspect& m, schema::Suspect::Builder to) {
  to.setFingerprint(m.fingerprint);
  to.setStrikes(m.strikes);
  put_list(m.uncertain, to.initDoubted(m.uncertain.size()));
}
void get(schema::Suspect::Reader from, Suspect& m) {
  m.fingerprint = from.getFingerprint();
  m.strikes = from.getStrikes();
  get_list(from.getDoubted(), m.uncertain);
}

void put(const LeaderBeat& m, schema::LeaderBeat::Builder to) { to.setToken(m.token); }
void get(schema::LeaderBeat::Reader from, LeaderBeat& m) { m.token = from.getToken(); }

void put(const Drain& m, schema::Drain::Builder to) {
  to.setId(m.id);
  to.setOn(m.on);
  put_list(m.user_targets, to.initUsersTo(m.user_targets.size()));
}
void get(schema::Drain::Reader from, Drain& m) {
  m.id = from.getId();
  m.on = from.getOn();
  get_list(from.getUsersTo(), m.user_targets);
}

void put(const StatusRequest& m, schema::StatusRequest::Builder to) { to.setId(m.id); }
void get(schema::StatusRequest::Reader from, StatusRequest& m) { m.id = from.getId(); }

void put(const StatusField& m, schema::StatusField::Builder to) {
  to.setName(wire(m.name));
  to.setValue(wire(m.value));
}
void get(schema::StatusField::Reader from, StatusField& m) {
  get(from.getName(), m.name);
  get(from.getValue(), m.value);
}

void put(const StatusReply& m, schema::StatusReply::Builder to) {
  to.setId(m.id);
  to.setNode(m.node);
  to.setRole(wire<schema::Role>(m.role));
  to.setReady(m.ready);
  put_list(m.fields, to.initFields(m.fields.size()));
}
void get(schema::StatusReply::Reader from, StatusReply& m) {
  m.id = from.getId();
  m.node = from.getNode();
  get(from.getRole(), m.role);
  m.ready = from.getReady();
  get_list(from.getFields(), m.fields);
}

}  // namespace troupe::codec
