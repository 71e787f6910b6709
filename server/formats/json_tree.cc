// Parses JSON bodies of other engines' APIs into a tree after bounding their size and depth, so
// that hostile bodies cost little.
#include "server/formats/json_tree.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/actor/row_rules.h"
#include "runtime/wire/json_fault.h"
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
  TreeBuilder(std::string_view body, ListLimits limits, Fractions fractions)
      : body_(body), limits_(limits), elements_(limits.size()), fractions_(fractions) {}

  JsonTree root;

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(std::int64_t value) { return put(value); }
  bool number_unsigned(std::uint64_t value) { return put(value); }
  bool number_float(double value, const std::string& written) {
    if (fractions_ == Fractions::refused) refuse_written(written);
    return put(value);
  }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(JsonTree::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(JsonTree::object()); }
  bool start_array(std::size_t) { return open(JsonTree::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    Open& object = open_.back();
    const auto [slot, is_new] = object.value->get_ref<JsonTree::object_t&>().emplace(name, nullptr);
    if (!is_new) tree_fault("malformed_json", "a key is given twice", name, "it once");
    object.member = slot;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string& token, const JsonTree::exception& error) {
    constexpr int out_of_range_number = 406;
    if (error.id != out_of_range_number) refuse_json(body_, byte);
    if (fractions_ == Fractions::refused) refuse_written(token);
    const std::string where = place();
    tree_fault("wrong_type", where + " is " + token.substr(0, quoted_bytes_max), where,
               "a number that a double can hold");
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
    if (array.limit == SIZE_MAX) return;
    const ListLimit& limit = limits_[array.limit];
    if (++elements_[array.limit] > limit.max) throw refuse_length(limit);
  }
  // Returns the position of the next value, as "events[3].timestamp".
  std::string place() const {
    std::string where;
    for (const Open& open : open_)
      if (open.value->is_array())
        where += "[" + std::to_string(open.value->size() - (&open == &open_.back() ? 0 : 1)) + "]";
      else
        where += (where.empty() ? "" : ".") + open.member->first.substr(0, quoted_bytes_max);
    return where.empty() ? "body" : where;
  }
  std::string_view member_here() const {
    for (auto open = open_.rbegin(); open != open_.rend(); ++open)
      if (open->value->is_object()) return open->member->first;
    return "";
  }
  // Refuses a number that is no whole number of 64 bits.
  [[noreturn]] void refuse_written(std::string_view written) const {
    const NumberRule rule = number_rule(member_here());
    auto read = read_number(written, rule, place());
    if (auto* refusal = std::get_if<Refusal>(&read)) throw std::move(*refusal);
    throw no_number(written, rule, place());
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

  std::string_view body_;
  ListLimits limits_;
  std::vector<std::size_t> elements_;  // elements counted so far for each limit
  Fractions fractions_;
  std::vector<Open> open_;  // from the root inwards; a parent does not grow while a child is open
};

}  // namespace

JsonTree parse_tree(std::string_view body, const JsonBounds& bounds, const char* list, ListLimits limits,
                    Fractions fractions) {
  reject_if_not_text(body);
  if (const std::string excess = exceeded_bound(body, bounds); !excess.empty())
    throw Refusal{RefusalKind::too_large, "too_many_values", "the body has " + excess, list,
                  "a shorter list"};
  TreeBuilder builder(body, limits, fractions);
  JsonTree::sax_parse(body.begin(), body.end(), &builder);
  return std::move(builder.root);
}

void tree_type_fault(const JsonTree& value, const std::string& where, std::string expected) {
  tree_fault("wrong_type", where + " is " + (value.is_number() ? value.dump() : value.type_name()), where,
             std::move(expected));
}

std::string tree_text(const JsonTree& value, const std::string& where) {
  if (!value.is_string()) tree_type_fault(value, where, "a string");
  const auto& text = value.get_ref<const std::string&>();
  if (auto fault = reject_text(text, where)) throw *std::move(fault);
  return text;
}

bool tree_flag(const JsonTree& value, const std::string& where) {
  if (!value.is_boolean()) tree_type_fault(value, where, "true or false");
  return value.get<bool>();
}

std::int64_t tree_number(const JsonTree& value, const std::string& where, std::int64_t least,
                         std::int64_t most) {
  const bool whole =
      value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
  if (!whole || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    tree_type_fault(value, where,
                    "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return value.get<std::int64_t>();
}

}  // namespace troupe::server
