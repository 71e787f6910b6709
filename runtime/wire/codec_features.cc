// schema/serving.capnp: profiles and catalog.
#include "runtime/wire/codec_fields.h"

namespace troupe::codec {

void put(const Feature& m, schema::Feature::Builder to) {
  to.setName(wire(m.name));
  put_list(m.values, to.initValues(m.values.size()));
}
void get(schema::Feature::Reader from, Feature& m) {
  get(from.getName(), m.name);
  get_list(from.getValues(), m.values);
}

void put(const PutUser& m, schema::PutUser::Builder to) {
  to.setId(m.id);
  to.setTenant(wire(m.tenant));
  to.setUser(wire(m.user));
  put_list(m.history, to.initHistory(m.history.size()));
  put_list(m.tokens, to.initTokens(m.tokens.size()));
  put_list(m.features, to.initFeatures(m.features.size()));
}
void get(schema::PutUser::Reader from, PutUser& m) {
  m.id = from.getId();
  get(from.getTenant(), m.tenant);
  get(from.getUser(), m.user);
  get_list(from.getHistory(), m.history);
  get_list(from.getTokens(), m.tokens);
  get_list(from.getFeatures(), m.features);
}

void put(const DeleteUser& m, schema::DeleteUser::Builder to) {
  to.setId(m.id);
  to.setTenant(wire(m.tenant));
  to.setUser(wire(m.user));
}
void get(schema::DeleteUser::Reader from, DeleteUser& m) {
  m.id = from.getId();
  get(from.getTenant(), m.tenant);
  get(from.getUser(), m.user);
}

void put(const PutItem& m, schema::PutItem::Builder to) {
  to.setId(m.id);
  to.setItem(wire(m.item));
  to.setTitle(wire(m.title));
  put_list(m.tokens, to.initTokens(m.tokens.size()));
  to.setIdentifier(m.identifier);
}
void get(schema::PutItem::Reader from, PutItem& m) {
  m.id = from.getId();
  get(from.getItem(), m.item);
  get(from.getTitle(), m.title);
  get_list(from.getTokens(), m.tokens);
  m.identifier = from.getIdentifier();
}

void put(const DeleteItem& m, schema::DeleteItem::Builder to) {
  to.setId(m.id);
  to.setItem(wire(m.item));
}
void get(schema::DeleteItem::Reader from, DeleteItem& m) {
  m.id = from.getId();
  get(from.getItem(), m.item);
}

}  // namespace troupe::codec
