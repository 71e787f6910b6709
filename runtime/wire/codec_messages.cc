// Compiles the generated conversions of all messages, and holds the few that are written by hand: names
// of blocks, and runs of tokens and of segments, which the kernels keep in types of their own.
#include "runtime/wire/codec_fields.h"

namespace troupe::codec {

void get(capnp::Data::Reader name, BlockName& out) {
  KJ_REQUIRE(name.size() == out.bytes.size(), "a block name has the wrong length; expected 32 bytes",
             name.size());
  std::copy(name.begin(), name.end(), out.bytes.begin());
}

void get(capnp::Data::Reader name, std::optional<BlockName>& out) {
  out.reset();
  if (name.size() > 0) get(name, out.emplace());
}

namespace {

void get_list(capnp::List<Token>::Reader from, Tokens& to) {
  std::vector<Token> tokens;
  codec::get_list(from, tokens);
  to = std::move(tokens);
}

void put_list(const VisibleSegments& sees, capnp::List<schema::SeenRange>::Builder to) {
  codec::put_list(sees.ranges(), to);
}
void get_list(capnp::List<schema::SeenRange>::Reader from, VisibleSegments& to) {
  check_inline(from);
  for (const auto range : from) {
    KJ_REQUIRE(range.getBegin() < range.getEnd(), "a range of segments is empty or ends before it begins");
    to.add({range.getBegin(), range.getEnd()});
  }
}

}  // namespace

void put(const Tokens& tokens, schema::TokenList::Builder to) {
  put_list(tokens, to.initTokens(list_size(tokens)));
}
void get(schema::TokenList::Reader from, Tokens& tokens) { get_list(from.getTokens(), tokens); }

}  // namespace troupe::codec

#include "generated/message_codec.inc"
