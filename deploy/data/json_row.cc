// Parses one JSON line of a data set, and refuses a line that is too large before it builds the
// tree.
#include "deploy/data/json_row.h"

#include "runtime/wire/json_bounds.h"

namespace troupe::deploy {
namespace {

constexpr JsonBounds bounds{.values_max = 1 << 21, .depth_max = 8};

}  // namespace

nlohmann::json parse_row(const TextFile& file, std::string_view line) {
  if (const std::string excess = exceeded_bound(line, bounds); !excess.empty())
    file.fail("the line has " + excess, "one JSON object in the documented format");
  return nlohmann::json::parse(line.begin(), line.end());
}

}  // namespace troupe::deploy
