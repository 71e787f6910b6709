// Translates between versions of profiles or items and HTTP entity tags. Clients use them for
// conditional reads and writes (If-Match, If-None-Match).
#include "server/formats/entity_tags.h"

#include <charconv>

#include "server/formats/quoted.h"

namespace troupe::server {
namespace {

constexpr std::string_view tag_blanks = " \t";

std::string_view trimmed_tag(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(tag_blanks), text.size()));
  return text.substr(0, text.find_last_not_of(tag_blanks) + 1);
}

Refusal bad_condition(std::string_view text, const char* where, const char* expected) {
  return {RefusalKind::malformed, "bad_condition", in_quotes(text) + " is not a supported condition", where,
          expected};
}

}  // namespace

std::string etag_of(std::uint64_t version) { return '"' + std::to_string(version) + '"'; }

std::variant<Condition, Refusal> condition_of(std::string_view if_match, std::string_view if_none_match) {
  Condition condition;
  if_match = trimmed_tag(if_match), if_none_match = trimmed_tag(if_none_match);
  if (!if_none_match.empty() && if_none_match != "*")
    return bad_condition(if_none_match, "if-none-match", "*: no version exists yet");
  condition.absent = !if_none_match.empty();
  if (if_match.empty()) return condition;
  if (condition.absent) return bad_condition(if_match, "if-match", "one of if-match and if-none-match");
  condition.present = if_match == "*";
  if (condition.present) return condition;
  constexpr const char* expected = "the version to replace, in quotes, such as \"7\"; or *";
  if (if_match.size() < 3 || !if_match.starts_with('"') || !if_match.ends_with('"'))
    return bad_condition(if_match, "if-match", expected);
  const std::string_view digits = if_match.substr(1, if_match.size() - 2);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), condition.version);
  if (error != std::errc() || end != digits.data() + digits.size() || condition.version == 0)
    return bad_condition(if_match, "if-match", expected);
  return condition;
}

bool has_already(std::string_view if_none_match, std::string_view etag) {
  while (!if_none_match.empty()) {
    const std::size_t comma = if_none_match.find(',');
    std::string_view one = trimmed_tag(if_none_match.substr(0, comma));
    if (one.starts_with("W/")) one.remove_prefix(2);
    if (one == "*" || (!etag.empty() && one == etag)) return true;
    if_none_match = comma == if_none_match.npos ? "" : if_none_match.substr(comma + 1);
  }
  return false;
}

}  // namespace troupe::server
