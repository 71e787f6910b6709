// Parses JSON bodies of other engines' APIs into a tree after bounding their size and depth, so
// that hostile bodies cost little.
#include "server/formats/json_tree.h"

#include <set>
#include <utility>
#include <vector>

#include "runtime/wire/json_text.h"
#include "server/formats/quoted.h"

namespace troupe::server {

void tree_fault(const char* code, std::string what, std::string where, std::string expected) {
  if (where.empty()) where = "\"\"";  // the member's name may be empty
  throw Refusal{RefusalKind::malformed, code, printable(std::move(what)),
                printable(where.substr(0, 2 * quoted_bytes_max)), std::move(expected)};
}

// Refuses repeated keys: parsers disagree about which one counts.
JsonTree parse_tree(std::string_view body, const JsonBounds& bounds, const char* list) {
  if (body.starts_with("\x1f\x8b"))
    throw Refusal{RefusalKind::unsupported_media, "content_encoding", "the body is compressed (gzip)", "body",
                  "JSON as plain text"};
  if (const std::string excess = exceeded_bound(body, bounds); !excess.empty())
    throw Refusal{RefusalKind::too_large, "too_many_values", "the body has " + excess, list,
                  "a shorter list"};
  std::vector<std::set<std::string>> keys;
  const auto look = [&](int, JsonTree::parse_event_t event, JsonTree& value) {
    if (event == JsonTree::parse_event_t::object_start) keys.emplace_back();
    if (event == JsonTree::parse_event_t::object_end) keys.pop_back();
    if (event == JsonTree::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      tree_fault("malformed_json", "a key is given twice", value.get<std::string>(), "each key once");
    return true;
  };
  try {
    return JsonTree::parse(body, look);
  } catch (const JsonTree::parse_error& error) {
    tree_fault("malformed_json", "the body is not valid JSON", "byte " + std::to_string(error.byte),
               "a JSON object");
  } catch (const JsonTree::exception&) {
    tree_fault("malformed_json", "a number is out of range", "body", "numbers that a double can hold");
  }
}

std::string tree_text(const JsonTree& value, const std::string& where) {
  if (!value.is_string()) tree_fault("wrong_type", where + " has the wrong type", where, "a string");
  const auto& text = value.get_ref<const std::string&>();
  if (text.find('\0') != text.npos)
    tree_fault("wrong_type", where + " contains U+0000", where, "a string without it");
  return text;
}

std::int64_t tree_number(const JsonTree& value, const std::string& where, std::int64_t least,
                         std::int64_t most) {
  const bool whole =
      value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
  if (!whole || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    tree_fault("wrong_type", where + " has the wrong type", where,
               "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return value.get<std::int64_t>();
}

}  // namespace troupe::server
