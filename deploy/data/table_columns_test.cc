#include "deploy/data/table_columns.h"

#include <doctest/doctest.h>

#include "runtime/config/config.h"

using namespace troupe;
using namespace troupe::deploy;

namespace table_columns_test {
namespace {

std::string error_of(std::string_view text) {
  try {
    parse_columns(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_SUITE("table columns") {
  TEST_CASE("columns: words, columns and forms; other colons belong to the column's name") {
    const TableColumns events =
        parse_columns("user=reviewer,item=asin:parent,timestamp=ts:ms,action=star rating");
    CHECK(events.content == TableContent::events);
    CHECK(events.list == std::vector<TableColumn>{{"user", "reviewer", ""},
                                                  {"item", "asin:parent", ""},
                                                  {"timestamp", "ts", "ms"},
                                                  {"action", "star rating", ""}});
    CHECK(events.find("timestamp")->form == "ms");
    CHECK(events.find("id") == nullptr);
    CHECK(parse_columns("item=asin,tokens=codes:codes").content == TableContent::items);
    CHECK(parse_columns("user=u,history=h,timestamps=t:iso").content == TableContent::profiles);
  }

  TEST_CASE("columns: what cannot be meant is refused, with the words that exist") {
    CHECK(error_of("item=a,time=ts")
              .starts_with("--columns: there is no word \"time\"; expected item, title, tokens, identifier "
                           "of a catalog; user, "
                           "item, timestamp, action, id of events; user, history, "));
    for (const char* text : {"", "item", "item=", "=a", "item=a,", "item=a,,title=b"})
      CHECK_MESSAGE(error_of(text).find("expected WORD=COLUMN") != std::string::npos, text);
    CHECK(error_of("user=u,item=i,timestamp=t:hours") ==
          "--columns: timestamp has no form \"hours\"; expected one of s, ms, us, ns, iso");
    CHECK(error_of("item=a,item=b") == "--columns: item is given twice; expected each word once");
    CHECK(error_of("item=a,timestamp=t") ==
          "--columns: timestamp does not belong to a catalog (item, title, tokens, identifier); expected "
          "columns "
          "of one kind of rows");
    CHECK(error_of("user=u,timestamp=t").find("there is no column for item of events") != std::string::npos);
    CHECK(error_of("history=h").find("there is no column for user of histories") != std::string::npos);
  }

  TEST_CASE("columns: without --columns, those of a table that have our names are read") {
    const std::vector<std::string> items{"item", "id", "title", "price"},
        events{"item", "user", "title", "id"};
    CHECK(columns_named_as_words(items).list ==
          std::vector<TableColumn>{{"item", "item"}, {"title", "title"}});
    CHECK(columns_named_as_words(events).list ==
          std::vector<TableColumn>{{"item", "item"}, {"user", "user"}, {"id", "id"}});
    CHECK_THROWS_AS(columns_named_as_words(std::vector<std::string>{"asin", "title"}), ConfigError);
  }
}

}  // namespace table_columns_test
