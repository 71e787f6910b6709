#include "deploy/reports/table.h"

#include <doctest/doctest.h>

#include <sstream>

using namespace troupe::deploy;

TEST_CASE("tables: control characters of ids and titles are escaped, and columns stay aligned") {
  Table table({{"item"}, {"title"}, {"n", Table::Align::right}});
  table.row({"esc", "\x1b]0;owned\x07\x1b[2JSALE", "1"});
  table.row({"c1\xc2\x9b", "plain \xc3\xbc", "22"});
  std::ostringstream out;
  table.print(out);
  CHECK(out.str() ==
        "item      title                               n\n"
        "--------  ---------------------------------  --\n"
        "esc       \\u001b]0;owned\\u0007\\u001b[2JSALE   1\n"
        "c1\\u009b  plain \xc3\xbc                            22\n");
}
