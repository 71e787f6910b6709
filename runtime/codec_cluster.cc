// schema/cluster.capnp: the split of each node's memory, and how an actor is doing.
#include "runtime/codec_fields.h"

namespace troupe::codec {

static_assert(static_cast<int>(schema::Role::DOOR) == static_cast<int>(Role::door));
static_assert(static_cast<int>(schema::Role::ROUTER) == static_cast<int>(Role::router));
static_assert(static_cast<int>(schema::Role::CACHE_META) == static_cast<int>(Role::cache_meta));
static_assert(static_cast<int>(schema::Role::KV_WORKER) == static_cast<int>(Role::kv_worker));
static_assert(static_cast<int>(schema::Role::INFERENCE_WORKER) == static_cast<int>(Role::inference_worker));
static_assert(static_cast<int>(schema::Role::ALLOCATOR) == static_cast<int>(Role::allocator));

void put(const SetSplit& m, schema::SetSplit::Builder to) {
  to.setEpoch(m.epoch);
  to.setItemPages(m.item_pages);
  to.setUserPages(m.user_pages);
}
void get(schema::SetSplit::Reader from, SetSplit& m) {
  m.epoch = from.getEpoch();
  m.item_pages = from.getItemPages();
  m.user_pages = from.getUserPages();
}

void put(const PoolReport& m, schema::PoolReport::Builder to) {
  to.setEpoch(m.epoch);
  to.setItemPagesUsed(m.item_pages_used);
  to.setUserPagesUsed(m.user_pages_used);
  to.setItemPages(m.item_pages);
  to.setUserPages(m.user_pages);
}
void get(schema::PoolReport::Reader from, PoolReport& m) {
  m.epoch = from.getEpoch();
  m.item_pages_used = from.getItemPagesUsed();
  m.user_pages_used = from.getUserPagesUsed();
  m.item_pages = from.getItemPages();
  m.user_pages = from.getUserPages();
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
