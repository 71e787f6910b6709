// Says why text is not JSON: what stands at the byte where the parser stopped.
#include "runtime/wire/json_fault.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "runtime/actor/utf8.h"

namespace troupe {
namespace {

[[noreturn]] void refuse(std::string what, std::size_t byte) {
  throw Refusal{RefusalKind::malformed, "malformed_json", std::move(what), "byte " + std::to_string(byte),
                "a JSON object"};
}

// True if the bytes up to and including `end` hold one that is not part of valid UTF-8.
bool has_other_byte(std::string_view text, std::size_t end) {
  for (std::size_t at = 0; at < std::min(end, text.size());) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) return true;
    at += length;
  }
  return false;
}

std::string byte_name(char c) {
  char name[8];
  std::snprintf(name, sizeof name, "\\x%02x", static_cast<unsigned>(static_cast<std::uint8_t>(c)));
  return name;
}

}  // namespace

void reject_if_not_text(std::string_view json) {
  if (json.starts_with("\x1f\x8b"))
    throw Refusal{RefusalKind::unsupported_media, "content_encoding", "the body is compressed (gzip)", "body",
                  "JSON as plain text"};
  if (json.starts_with("\xef\xbb\xbf"))
    throw Refusal{RefusalKind::malformed, "malformed_json", "the text begins with a byte order mark",
                  "byte 1", "UTF-8 without one"};
  if (const auto nul = json.find('\0'); nul != json.npos) refuse("the text has a NUL byte", nul + 1);
}

void refuse_json(std::string_view json, std::size_t byte) {
  if (has_other_byte(json, byte)) refuse("the text is not UTF-8", byte);
  if (byte == 0 || byte > json.size()) refuse("the text ends too early", byte);
  const char c = json[byte - 1];
  if (static_cast<std::uint8_t>(c) < 0x20) refuse("found the control character " + byte_name(c), byte);
  if (static_cast<std::uint8_t>(c) >= 0x7f) refuse("found the byte " + byte_name(c), byte);
  refuse("found '" + std::string(1, c) + "', which JSON does not have there", byte);
}

Refusal as_written(Refusal refusal, std::span<const RenamedMember> renamed) {
  if (refusal.code == "malformed_json") return refusal;
  const std::string named = refusal.where.substr(0, refusal.where.find_first_of("[."));
  const auto found = std::ranges::find(renamed, named, &RenamedMember::member);
  if (found == renamed.end()) return refusal;
  if (refusal.what.starts_with(refusal.where)) refusal.what.replace(0, named.size(), found->written);
  refusal.where.replace(0, named.size(), found->written);
  return refusal;
}

}  // namespace troupe
