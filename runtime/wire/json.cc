#include "runtime/wire/json.h"

#include <capnp/message.h>

#include "runtime/wire/codec_fields.h"
#include "runtime/wire/codec_scratch.h"
#include "runtime/wire/json_schema.h"

namespace troupe {
namespace {

template <class Wire, class M>
std::optional<Refusal> read_body(std::string_view body, M& out, ListLimits limits) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<Wire>();
  try {
    json::read(body, root, limits);
  } catch (const Refusal& refusal) {
    return refusal;
  }
  codec::get(root.asReader(), out);
  return std::nullopt;
}

template <class Wire, class M>
void write_body(const M& message, std::string& out) {
  static thread_local codec::Scratch scratch;
  capnp::MallocMessageBuilder builder{scratch.segment()};
  auto root = builder.initRoot<Wire>();
  codec::put(message, root);
  scratch.took(builder.sizeInWords());
  json::write(root.asReader(), out);
}

template <class Wire, class M>
std::string body_of(const M& message) {
  std::string out;
  write_body<Wire>(message, out);
  return out;
}

}  // namespace

std::optional<Refusal> from_json(std::string_view body, RankRequest& out, ListLimits limits) {
  return read_body<schema::RankRequest>(body, out, limits);
}
std::optional<Refusal> from_json(std::string_view body, ScoreRequest& out, ListLimits limits) {
  return read_body<schema::ScoreRequest>(body, out, limits);
}
std::optional<Refusal> from_json(std::string_view body, PutUser& out, ListLimits limits) {
  return read_body<schema::PutUser>(body, out, limits);
}
std::optional<Refusal> from_json(std::string_view body, PutItem& out, ListLimits limits) {
  return read_body<schema::PutItem>(body, out, limits);
}
std::optional<Refusal> from_json(std::string_view body, Reload& out, ListLimits limits) {
  return read_body<schema::Reload>(body, out, limits);
}

std::string to_json(const RankReply& reply) { return body_of<schema::RankReply>(reply); }
std::string to_json(const ScoreReply& reply) { return body_of<schema::ScoreReply>(reply); }
std::string to_json(const Stored& reply) { return body_of<schema::Stored>(reply); }

std::string to_json(std::span<const StatusReply> actors) {
  std::string out = "{\"actors\":[";
  for (std::size_t i = 0; i < actors.size(); ++i) {
    if (i > 0) out += ',';
    write_body<schema::StatusReply>(actors[i], out);
  }
  return out + "]}";
}

std::string to_json(const Refusal& refusal) {
  std::string out = "{\"error\":";
  write_body<schema::Refusal>(refusal, out);
  return out + "}";
}

}  // namespace troupe
