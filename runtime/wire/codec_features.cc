// Converts messages about user profiles and the catalog of items to their Cap'n Proto form
// (schema/serving.capnp) and back.
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

void put(const Condition& m, schema::Condition::Builder to) {
  to.setAbsent(m.absent);
  to.setPresent(m.present);
  to.setVersion(m.version);
}
void get(schema::Condition::Reader from, Condition& m) {
  m.absent = from.getAbsent();
  m.present = from.getPresent();
  m.version = from.getVersion();
}

void put(const PutUser& m, schema::PutUser::Builder to) {
  to.setId(m.id);
  to.setTenant(wire(m.tenant));
  to.setUser(wire(m.user));
  put_list(m.history, to.initHistory(m.history.size()));
  put_list(m.tokens, to.initTokens(m.tokens.size()));
  put_list(m.features, to.initFeatures(m.features.size()));
  put_list(m.event_ids, to.initEventIds(m.event_ids.size()));
  put(m.condition, to.initCondition());
}
void get(schema::PutUser::Reader from, PutUser& m) {
  m.id = from.getId();
  get(from.getTenant(), m.tenant);
  get(from.getUser(), m.user);
  get_list(from.getHistory(), m.history);
  get_list(from.getTokens(), m.tokens);
  get_list(from.getFeatures(), m.features);
  get_list(from.getEventIds(), m.event_ids);
  get(from.getCondition(), m.condition);
}

void put(const AppendEvents& m, schema::AppendEvents::Builder to) {
  to.setId(m.id);
  to.setTenant(wire(m.tenant));
  to.setUser(wire(m.user));
  put_list(m.history, to.initHistory(m.history.size()));
  put_list(m.tokens, to.initTokens(m.tokens.size()));
  put_list(m.features, to.initFeatures(m.features.size()));
  put_list(m.event_ids, to.initEventIds(m.event_ids.size()));
  put(m.condition, to.initCondition());
}
void get(schema::AppendEvents::Reader from, AppendEvents& m) {
  m.id = from.getId();
  get(from.getTenant(), m.tenant);
  get(from.getUser(), m.user);
  get_list(from.getHistory(), m.history);
  get_list(from.getTokens(), m.tokens);
  get_list(from.getFeatures(), m.features);
  get_list(from.getEventIds(), m.event_ids);
  get(from.getCondition(), m.condition);
}

void put(const Appended& m, schema::Appended::Builder to) {
  to.setId(m.id);
  to.setVersion(m.version);
  to.setAppended(m.appended);
  to.setRepeated(m.repeated);
  to.setDropped(m.dropped);
  to.setEvents(m.events);
}
void get(schema::Appended::Reader from, Appended& m) {
  m.id = from.getId();
  m.version = from.getVersion();
  m.appended = from.getAppended();
  m.repeated = from.getRepeated();
  m.dropped = from.getDropped();
  m.events = from.getEvents();
}

void put(const GetUser& m, schema::GetUser::Builder to) {
  to.setId(m.id);
  to.setTenant(wire(m.tenant));
  to.setUser(wire(m.user));
}
void get(schema::GetUser::Reader from, GetUser& m) {
  m.id = from.getId();
  get(from.getTenant(), m.tenant);
  get(from.getUser(), m.user);
}

void put(const UserReply& m, schema::UserReply::Builder to) {
  to.setId(m.id);
  to.setUser(wire(m.user));
  to.setVersion(m.version);
  put_list(m.history, to.initHistory(m.history.size()));
  if (!m.tokens.empty()) put_list(m.tokens, to.initTokens(m.tokens.size()));
  if (!m.event_tokens.empty()) put_list(m.event_tokens, to.initEventTokens(m.event_tokens.size()));
  if (!m.features.empty()) put_list(m.features, to.initFeatures(m.features.size()));
  if (!m.event_ids.empty()) put_list(m.event_ids, to.initEventIds(m.event_ids.size()));
}
void get(schema::UserReply::Reader from, UserReply& m) {
  m.id = from.getId();
  get(from.getUser(), m.user);
  m.version = from.getVersion();
  get_list(from.getHistory(), m.history);
  get_list(from.getTokens(), m.tokens);
  get_list(from.getEventTokens(), m.event_tokens);
  get_list(from.getFeatures(), m.features);
  get_list(from.getEventIds(), m.event_ids);
}

void put(const DeleteUser& m, schema::DeleteUser::Builder to) {
  to.setId(m.id);
  to.setTenant(wire(m.tenant));
  to.setUser(wire(m.user));
  put(m.condition, to.initCondition());
}
void get(schema::DeleteUser::Reader from, DeleteUser& m) {
  m.id = from.getId();
  get(from.getTenant(), m.tenant);
  get(from.getUser(), m.user);
  get(from.getCondition(), m.condition);
}

void put(const PutItem& m, schema::PutItem::Builder to) {
  to.setId(m.id);
  to.setItem(wire(m.item));
  to.setTitle(wire(m.title));
  put_list(m.tokens, to.initTokens(m.tokens.size()));
  to.setIdentifier(m.identifier);
  put(m.condition, to.initCondition());
}
void get(schema::PutItem::Reader from, PutItem& m) {
  m.id = from.getId();
  get(from.getItem(), m.item);
  get(from.getTitle(), m.title);
  get_list(from.getTokens(), m.tokens);
  m.identifier = from.getIdentifier();
  get(from.getCondition(), m.condition);
}

void put(const DeleteItem& m, schema::DeleteItem::Builder to) {
  to.setId(m.id);
  to.setItem(wire(m.item));
  put(m.condition, to.initCondition());
}
void get(schema::DeleteItem::Reader from, DeleteItem& m) {
  m.id = from.getId();
  get(from.getItem(), m.item);
  get(from.getCondition(), m.condition);
}

void put(const GetItem& m, schema::GetItem::Builder to) {
  to.setId(m.id);
  to.setItem(wire(m.item));
}
void get(schema::GetItem::Reader from, GetItem& m) {
  m.id = from.getId();
  get(from.getItem(), m.item);
}

void put(const ItemReply& m, schema::ItemReply::Builder to) {
  to.setId(m.id);
  to.setItem(wire(m.item));
  to.setTitle(wire(m.title));
  put_list(m.tokens, to.initTokens(m.tokens.size()));
  to.setIdentifier(m.identifier);
  to.setVersion(m.version);
}
void get(schema::ItemReply::Reader from, ItemReply& m) {
  m.id = from.getId();
  get(from.getItem(), m.item);
  get(from.getTitle(), m.title);
  get_list(from.getTokens(), m.tokens);
  m.identifier = from.getIdentifier();
  m.version = from.getVersion();
}

}  // namespace troupe::codec
