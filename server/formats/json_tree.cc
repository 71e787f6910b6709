// Parses JSON bodies of other engines' APIs into a tree after bounding their size and depth, so
// that hostile bodies cost little.
#include "server/formats/json_tree.h"

#include <algorithm>
#include <cstdint>
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

namespace {

// Builds the tree from the parser's events, in time linear in the text: the library's own parser with a
// callback takes time quadratic in the length of an array. Refuses repeated keys, because parsers
// disagree about which one counts, and a list at its first element too many.
class TreeBuilder {
 public:
  explicit TreeBuilder(ListLimits limits) : limits_(limits), elements_(limits.size()) {}

  JsonTree root;

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(std::int64_t value) { return put(value); }
  bool number_unsigned(std::uint64_t value) { return put(value); }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(JsonTree::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(JsonTree::object()); }
  bool start_array(std::size_t) { return open(JsonTree::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    Open& object = open_.back();
    const auto [slot, is_new] = object.value->get_ref<JsonTree::object_t&>().emplace(name, nullptr);
    if (!is_new) tree_fault("malformed_json", "a key is given twice", name, "each key once");
    object.member = slot;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const JsonTree::exception& error) {
    constexpr int out_of_range_number = 406;
    if (error.id == out_of_range_number)
      tree_fault("malformed_json", "a number is out of range", "body", "numbers that a double can hold");
    tree_fault("malformed_json", "the body is not valid JSON", "byte " + std::to_string(byte),
               "a JSON object");
  }

 private:
  struct Open {  // an object or array
    JsonTree* value;
    JsonTree::object_t::iterator member{};  // member of the last key
    std::size_t limit = SIZE_MAX;           // index of the array's limit in limits_
  };

  bool put(JsonTree value) {
    append_value(std::move(value));
    return true;
  }
  JsonTree* append_value(JsonTree value) {
    if (open_.empty()) return &(root = std::move(value));
    Open& parent = open_.back();
    if (!parent.value->is_array()) return &(parent.member->second = std::move(value));
    count_element(parent);
    return &parent.value->emplace_back(std::move(value));
  }
  void count_element(const Open& array) {
    if (array.limit == SIZE_MAX || ++elements_[array.limit] <= limits_[array.limit].max) return;
    const ListLimit& limit = limits_[array.limit];
    const std::string most = std::to_string(limit.max);
    throw Refusal{RefusalKind::too_large, "too_many_" + std::string(limit.things),
                  std::string(limit.list) + " has more than " + most + " elements", std::string(limit.list),
                  "at most " + most + " (" + std::string(limit.setting) + ")"};
  }
  bool open(JsonTree value) {
    const std::size_t limit = value.is_array() ? limit_here() : SIZE_MAX;
    open_.push_back({append_value(std::move(value)), {}, limit});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  std::size_t limit_here() const {
    if (open_.empty() || !open_.back().value->is_object()) return SIZE_MAX;
    const auto found = std::ranges::find(limits_, open_.back().member->first, &ListLimit::list);
    return found == limits_.end() ? SIZE_MAX : static_cast<std::size_t>(found - limits_.begin());
  }

  ListLimits limits_;
  std::vector<std::size_t> elements_;  // elements counted so far for each limit
  std::vector<Open> open_;             // from the root inwards; a parent does not grow while a child is open
};

}  // namespace

JsonTree parse_tree(std::string_view body, const JsonBounds& bounds, const char* list, ListLimits limits) {
  if (body.starts_with("\x1f\x8b"))
    throw Refusal{RefusalKind::unsupported_media, "content_encoding", "the body is compressed (gzip)", "body",
                  "JSON as plain text"};
  // The library takes a NUL for the end of the text and would not look at what follows.
  if (const auto nul = body.find('\0'); nul != body.npos)
    tree_fault("malformed_json", "the body has a NUL byte", "byte " + std::to_string(nul + 1),
               "a JSON object");
  if (const std::string excess = exceeded_bound(body, bounds); !excess.empty())
    throw Refusal{RefusalKind::too_large, "too_many_values", "the body has " + excess, list,
                  "a shorter list"};
  TreeBuilder builder(limits);
  JsonTree::sax_parse(body.begin(), body.end(), &builder);
  return std::move(builder.root);
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
