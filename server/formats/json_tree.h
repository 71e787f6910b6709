#pragma once
// Parses bodies of foreign formats into a tree: size and depth are bounded first, and repeated keys
// are refused. All functions throw Refusal.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/actor/messages.h"
#include "runtime/wire/json.h"
#include "runtime/wire/json_bounds.h"

namespace troupe::server {

using JsonTree = nlohmann::json;

// Whether numbers may have fractions, or be beyond 64 bits. Where all numbers of a body are whole, they are
// refused as they are read, because the tree does not keep how they were written.
enum class Fractions : std::uint8_t { taken, refused };

// Throws 415 for a compressed body, 413 too_many_values with `list` as its place, 400
// malformed_json. `limits`: of lists by the name of their member, enforced while the body is read
// (runtime/wire/json.h); the refusal is 413 too_many_THINGS. Takes time linear in the body.
JsonTree parse_tree(std::string_view body, const JsonBounds& bounds, const char* list, ListLimits limits = {},
                    Fractions fractions = Fractions::taken);
[[noreturn]] void tree_fault(const char* code, std::string what, std::string where,
                             std::string expected);  // status 400
// Refuses a value of another type or out of range (wrong_type), and says what it is.
[[noreturn]] void tree_type_fault(const JsonTree& value, const std::string& where, std::string expected);
std::string tree_text(const JsonTree& value, const std::string& where);
bool tree_flag(const JsonTree& value, const std::string& where);
std::int64_t tree_number(const JsonTree& value, const std::string& where, std::int64_t least,
                         std::int64_t most);

}  // namespace troupe::server
