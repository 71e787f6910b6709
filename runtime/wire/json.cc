// Converts HTTP bodies in JSON to messages, and answers to JSON, with the members that the Cap'n
// Proto schemas declare. Invalid bodies are refused with the position and the expected form.
#include "runtime/wire/json.h"

#include <capnp/message.h>

#include "kernels/base/check.h"
#include "runtime/actor/row_rules.h"
#include "runtime/wire/codec_fields.h"
#include "runtime/wire/codec_scratch.h"
#include "runtime/wire/json_schema.h"
#include "runtime/wire/json_writer.h"

namespace troupe {
namespace {

using Fault = std::optional<Refusal>;

Refusal missing(const char* field, const char* expected) {
  return {RefusalKind::malformed, "missing_field", std::string("the body has no ") + field, field, expected};
}

// An absent list is not an empty one: a replacement without the list would otherwise empty it.
template <class Wire>
Fault reject_if_missing(typename Wire::Reader) {
  return {};
}
template <>
Fault reject_if_missing<schema::PutUser>(schema::PutUser::Reader body) {
  if (body.hasHistory() || body.hasTokens()) return {};
  return missing("history or tokens",
                 "a list of item ids, oldest first (\"history\"), or a list of tokens (\"tokens\")");
}
template <>
Fault reject_if_missing<schema::PutItem>(schema::PutItem::Reader body) {
  if (!body.hasTokens()) return missing("tokens", "the item's text as a list of tokens");
  return {};
}

template <>
Fault reject_if_missing<schema::ReplayRequest>(schema::ReplayRequest::Reader body) {
  if (!body.hasRequestId()) return missing("request_id", "the x-request-id of an answer");
  return {};
}

std::string_view text_of(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

// The codec does not keep an unknown word of an option, so it is refused before.
template <class Wire>
Fault reject_if_unknown_word(typename Wire::Reader) {
  return {};
}
template <>
Fault reject_if_unknown_word<schema::RankRequest>(schema::RankRequest::Reader body) {
  RankRequest read;
  if (Fault fault = read_word(text_of(body.getFeatures()), read.features)) return fault;
  if (Fault fault = read_word(text_of(body.getArrangement()), read.arrangement)) return fault;
  if (Fault fault = read_word(text_of(body.getUnknownUser()), read.unknown_user)) return fault;
  return read_word(text_of(body.getUnknown()), read.unknown);
}
template <>
Fault reject_if_unknown_word<schema::GenerateRequest>(schema::GenerateRequest::Reader body) {
  GenerateRequest read;
  if (Fault fault = read_word(text_of(body.getUnknownUser()), read.unknown_user)) return fault;
  if (Fault fault = read_word(text_of(body.getNormalised()), read.normalised)) return fault;
  return read_word(text_of(body.getFeatures()), read.features);
}

template <class Wire, class M>
Fault read_body(std::string_view body, M& out, ListLimits limits, const json::Spellings& spellings = {}) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<Wire>();
  try {
    json::read(body, root, limits, spellings);
  } catch (const Refusal& refusal) {
    return refusal;
  }
  if (Fault fault = reject_if_missing<Wire>(root.asReader())) return fault;
  if (Fault fault = reject_if_unknown_word<Wire>(root.asReader())) return fault;
  M read;
  codec::get(root.asReader(), read);
  // An absent history is not an empty one.
  if constexpr (requires { read.own_history; })
    read.own_history = root.hasHistory() || root.hasHistoryTokens();
  // Other values were checked as they were read; a feature's rule depends on its name.
  if constexpr (std::is_same_v<M, PutUser> || requires { read.event_features; })
    if (Fault fault = reject_values(read)) return fault;
  out = std::move(read);
  return std::nullopt;
}

// Spellings of a request that may have its own history.
json::Spellings of_request(std::span<const std::string> features) {
  return {.features = features, .feature_list = "event_features"};
}

template <class Wire, class M>
void write_body(const M& message, std::string& out) {
  static thread_local codec::MessageScratch scratch;
  capnp::MallocMessageBuilder builder{scratch.segment()};
  auto root = builder.initRoot<Wire>();
  codec::put(message, root);
  scratch.record_size(builder.sizeInWords());
  static const json::Writer writer(capnp::Schema::from<Wire>());
  out.reserve(out.size() + 2 * sizeof(capnp::word) * builder.sizeInWords());
  writer.write(root.asReader(), out);
}

template <class Wire, class M>
std::string body_of(const M& message) {
  std::string out;
  write_body<Wire>(message, out);
  return out;
}

}  // namespace

std::optional<Refusal> from_json(std::string_view body, RankRequest& out, ListLimits limits,
                                 std::span<const std::string> features) {
  return read_body<schema::RankRequest>(body, out, limits, of_request(features));
}
std::optional<Refusal> from_json(std::string_view body, ScoreRequest& out, ListLimits limits) {
  return read_body<schema::ScoreRequest>(body, out, limits);
}
std::optional<Refusal> from_json(std::string_view body, GenerateRequest& out, ListLimits limits,
                                 std::span<const std::string> features) {
  return read_body<schema::GenerateRequest>(body, out, limits, of_request(features));
}
std::optional<Refusal> from_json(std::string_view body, PutUser& out, ListLimits limits,
                                 std::span<const std::string> features) {
  return read_body<schema::PutUser>(body, out, limits, {.id = "user", .features = features});
}
std::optional<Refusal> from_json(std::string_view body, PutItem& out, ListLimits limits) {
  return read_body<schema::PutItem>(body, out, limits, {.id = "item"});
}
std::optional<Refusal> from_json(std::string_view body, Reload& out, ListLimits limits) {
  return read_body<schema::Reload>(body, out, limits);
}
std::optional<Refusal> from_json(std::string_view body, ReplayRequest& out, ListLimits limits) {
  return read_body<schema::ReplayRequest>(body, out, limits);
}

Refusal refuse_length(const ListLimit& limit) {
  const std::string most = std::to_string(limit.max), list(limit.list);
  return {RefusalKind::too_large,
          limit.code.empty() ? "too_many_" + std::string(limit.things) : std::string(limit.code),
          list + " has more than " + most + " elements", list,
          "at most " + most + " (" + std::string(limit.setting) + ")"};
}

std::string to_json(const RankReply& reply) { return body_of<schema::RankReply>(reply); }
std::string to_json(const ScoreReply& reply) { return body_of<schema::ScoreReply>(reply); }
std::string to_json(const GenerateReply& reply) { return body_of<schema::GenerateReply>(reply); }
std::string to_json(const Stored& reply) { return body_of<schema::Stored>(reply); }
std::string to_json(const Appended& reply) { return body_of<schema::Appended>(reply); }
std::string to_json(const UserReply& reply) { return body_of<schema::UserReply>(reply); }
std::string to_json(const ItemReply& reply) { return body_of<schema::ItemReply>(reply); }
std::string to_json(const ReplayReply& reply) { return body_of<schema::ReplayReply>(reply); }

namespace {

void replace(std::string& schema, std::string_view from, std::string_view to) {
  const std::size_t at = schema.find(from);
  TROUPE_CHECK(at != schema.npos, "the schema has this part");
  schema.replace(at, from.size(), to);
}

// A history's features may be members of their own, of any name.
void add_own_features(std::string& schema) {
  replace(schema, "\"additionalProperties\":false",
          R"("additionalProperties":{"type":"array","items":{"type":"integer","format":"int64"}})");
}

// In a request "features" is the freshness, or the list that "event_features" is.
void add_feature_list(std::string& schema) {
  replace(schema, R"("features":{"type":"string"})",
          R"("features":{"anyOf":[{"type":"string"},{"type":"array","items":{)"
          R"("$ref":"#/components/schemas/Feature"}}]})");
}

// A row may have its id under this name, too.
void add_id(std::string& schema) {
  constexpr std::string_view members = "\"properties\":{";
  const std::size_t at = schema.find(members);
  TROUPE_CHECK(at != schema.npos, "a row has members");
  schema.insert(at + members.size(), R"("id":{"type":"string"},)");
}

}  // namespace

std::map<std::string, std::string> body_schemas() {
  std::map<std::string, std::string> schemas;
  json::describe(capnp::Schema::from<schema::RankRequest>(), false, schemas);
  json::describe(capnp::Schema::from<schema::ScoreRequest>(), false, schemas);
  json::describe(capnp::Schema::from<schema::GenerateRequest>(), false, schemas);
  json::describe(capnp::Schema::from<schema::PutUser>(), false, schemas);
  json::describe(capnp::Schema::from<schema::PutItem>(), false, schemas);
  json::describe(capnp::Schema::from<schema::Reload>(), false, schemas);
  json::describe(capnp::Schema::from<schema::ReplayRequest>(), false, schemas);
  json::describe(capnp::Schema::from<schema::RankReply>(), true, schemas);
  json::describe(capnp::Schema::from<schema::ScoreReply>(), true, schemas);
  json::describe(capnp::Schema::from<schema::GenerateReply>(), true, schemas);
  json::describe(capnp::Schema::from<schema::Stored>(), true, schemas);
  json::describe(capnp::Schema::from<schema::Appended>(), true, schemas);
  json::describe(capnp::Schema::from<schema::ReplayReply>(), true, schemas);
  json::describe(capnp::Schema::from<schema::StatusReply>(), true, schemas);
  for (const char* row : {"PutUser", "PutItem"}) add_id(schemas.at(row));
  for (const char* with : {"PutUser", "RankRequest", "GenerateRequest"}) add_own_features(schemas.at(with));
  for (const char* request : {"RankRequest", "GenerateRequest"}) add_feature_list(schemas.at(request));
  return schemas;
}

std::string to_json(std::span<const StatusReply> actors) {
  std::string out = "{\"actors\":[";
  for (std::size_t i = 0; i < actors.size(); ++i) {
    if (i > 0) out += ',';
    write_body<schema::StatusReply>(actors[i], out);
  }
  return out + "]}";
}

}  // namespace troupe
