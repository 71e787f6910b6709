// Parses one JSON line of a file, and refuses a line that is too large before it builds the tree.
#include "deploy/data/json_row.h"

#include "runtime/wire/json_bounds.h"

namespace troupe::deploy {
namespace {

constexpr JsonBounds bounds{.values_max = 1 << 21, .depth_max = 8};

}  // namespace

nlohmann::json parse_row(const TextFile& file, std::string_view line, server::Fractions fractions) {
  if (const std::string excess = exceeded_bound(line, bounds); !excess.empty())
    file.fail("the line has " + excess, "one JSON object in the documented format");
  try {
    return server::parse_tree(line, bounds, "line", {}, fractions);
  } catch (const Refusal& refusal) {
    file.fail(refusal);
  }
}

void fail_row(const TextFile& file, const nlohmann::json::exception& error, std::string_view expected) {
  constexpr int no_such_member = 403;
  if (error.id != no_such_member) file.fail("a member has the wrong type", expected);
  std::string_view name = error.what();  // "… key 'NAME' not found"
  name = name.substr(std::min(name.find('\'') + 1, name.size()));
  file.fail("the line has no " + std::string(name.substr(0, name.find('\''))), expected);
}

}  // namespace troupe::deploy
