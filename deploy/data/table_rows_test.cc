#include "deploy/data/table_rows.h"

#include <doctest/doctest.h>

#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace table_rows_test {
namespace {

constexpr const char* names = R"({"<a_1>":1,"<b_2>":2,"<item_3>":3,"<item_4>":4,"17":5})";

struct Shop : TestFolder {
  std::unique_ptr<RowTable> table(TableKind kind, const std::string& text) const {
    write("table", text);
    return RowTable::open(kind, path() / "table");
  }
  TableItems items(const std::string& text, std::string_view columns, TableKind kind = TableKind::csv) const {
    return read_item_table(*table(kind, text), parse_columns(columns), reading);
  }
  TableUsers users(const std::string& text, std::string_view columns, TableKind kind = TableKind::csv) const {
    const TableColumns parsed = parse_columns(columns);
    const auto rows = table(kind, text);
    return parsed.content == TableContent::events ? read_event_table(*rows, parsed, reading)
                                                  : read_profile_table(*rows, parsed, reading);
  }
  template <class Read>
  static std::string error_of(Read read) {
    try {
      read();
    } catch (const ImportError& error) {
      return error.what();
    }
    return "none";
  }
  std::string items_error(const std::string& text, std::string_view columns) const {
    return error_of([&] { items(text, columns); });
  }
  std::string users_error(const std::string& text, std::string_view columns,
                          TableKind kind = TableKind::csv) const {
    return error_of([&] { users(text, columns, kind); });
  }
  void set_names() {
    write("vocab.json", names);
    vocabulary = kernels::read_vocabulary(path(), 100);
    reading.rows.text = server::ModelText(&vocabulary);
  }
  void set_item_names() {
    write("vocab.json", R"({"<item_1>":1,"<item_2>":2,"<item_3>":3})");
    vocabulary = kernels::read_vocabulary(path(), 100);
    reading.rows.text.item_names = &vocabulary;
  }

  kernels::Vocabulary vocabulary;
  TableReading reading;
};

std::vector<EventFeature> times_and_actions() {
  return {{.name = "timestamps", .ascending = true}, {.name = "actions", .least = 0, .most = 5}};
}

}  // namespace

TEST_SUITE("table rows") {
  TEST_CASE_FIXTURE(Shop, "table items: tokens of a column, as ids, names, codes or a list of JSON") {
    set_names();
    const std::string csv = "sku,what,toks,codes\ns1,\"Tent, red\",3 <b_2>,\"1,2\"\ns2,,4,\"1,2\"\n";
    const DataRows<PutItem> ids = items(csv, "item=sku,title=what,tokens=toks").items;
    CHECK(ids.rows.at(0) == PutItem{.item = "s1", .title = "Tent, red", .tokens = {3, 2}});
    CHECK(ids.rows.at(1).tokens == std::vector<Token>{4});
    CHECK(ids.where(1) == "table:3");
    CHECK(items(csv, "item=sku,tokens=codes:codes").items.rows.at(0).tokens == std::vector<Token>{1, 2});
    CHECK(items(csv, "item=sku,tokens=codes:codes").tokens_from == "column codes");
    const DataRows<PutItem> json = items("{\"sku\":7,\"toks\":[3,\"17\"]}\n{\"sku\":\"b\",\"toks\":4}\n",
                                         "item=sku,tokens=toks", TableKind::jsonl)
                                       .items;
    CHECK(json.rows.at(0) == PutItem{.item = "7", .tokens = {3, 5}});  // "17" in quotes is a name
    CHECK(json.rows.at(1).tokens == std::vector<Token>{4});
  }

  TEST_CASE_FIXTURE(Shop,
                    "table items: without tokens, the id is the row of a model whose tokens are items") {
    set_item_names();
    const TableItems read = items("id\n3\n1\n", "item=id");
    CHECK(read.items.rows.at(0) == PutItem{.item = "3", .tokens = {3}, .identifier = 3});
    CHECK(items_error("id\n3\nB00X\n", "item=id") ==
          "table:3: column id: item \"B00X\" is no row of the model; expected a number from 1 to 3, a column "
          "for "
          "tokens, such as tokens=COLUMN, or a model that `troupe convert --items` made");
    reading.skip_unknown = true;
    const TableItems some = items("id\n3\nB00X\n4\n1\n", "item=id");
    CHECK(some.items.rows.size() == 2);
    CHECK(some.left_out == 2);
    CHECK(some.left_out_first == std::vector<std::string>{"B00X", "4"});
    CHECK(some.items.where(1) == "table:5");
  }

  TEST_CASE_FIXTURE(Shop, "table items: without tokens, the model's own list maps the shop's ids") {
    set_item_names();
    write("items.jsonl",
          "{\"id\":\"B00X\",\"tokens\":[2],\"identifier\":2,\"title\":\"Tent\"}\n"
          "{\"id\":\"1\",\"tokens\":[3],\"identifier\":3}\n");
    const std::optional<ModelItems> list = ModelItems::of_model(path(), reading.rows);
    REQUIRE(list);
    reading.items = &*list;
    const TableItems read = items("asin,name\n1,Stove\nB00X,\n", "item=asin,title=name");
    CHECK(read.items.rows.at(0) == PutItem{.item = "1", .title = "Stove", .tokens = {3}, .identifier = 3});
    CHECK(read.items.rows.at(1) == PutItem{.item = "B00X", .title = "Tent", .tokens = {2}, .identifier = 2});
    CHECK(items_error("asin\n2\n", "item=asin")
              .find("item \"2\" is not in " + (path() / "items.jsonl").string()) != std::string::npos);
    // A column of tokens goes before the list.
    CHECK(items("asin,row\nB00X,1\n", "item=asin,tokens=row").items.rows.at(0).tokens ==
          std::vector<Token>{1});
  }

  TEST_CASE_FIXTURE(Shop, "table items: faults name line, column and word") {
    set_names();
    const std::string head = "sku,toks\n";
    CHECK(items_error(head + "a,3\nb,<zz>\n", "item=sku,tokens=toks")
              .starts_with("table:3: column toks: tokens[0]"));
    CHECK(items_error(head + "a,\n", "item=sku,tokens=toks").starts_with("table:2: column toks: "));
    CHECK(items_error(head + ",3\n", "item=sku,tokens=toks")
              .starts_with("table:2: column sku: item: the id is empty"));
    CHECK(items_error(head + std::string(300, 'x') + ",3\n", "item=sku,tokens=toks")
              .starts_with("table:2: column sku: item: the id has 300 bytes"));
    CHECK(items_error(head + "a,\"1,x\"\n", "item=sku,tokens=toks:codes")
              .starts_with("table:2: column toks: tokens is x"));
    CHECK(items_error(head, "item=asin,tokens=toks") ==
          "table:1: there is no column asin; expected one of sku, toks");
    CHECK(items_error("sku\na\n", "item=sku").find("nothing gives the tokens of item \"a\"") !=
          std::string::npos);
  }

  TEST_CASE_FIXTURE(Shop,
                    "table events: users get their events in order of time, with what the model reads") {
    reading.event_features = times_and_actions();
    const TableUsers read =
        users("who,what,when,stars,click\nu,b,2000,5.0,c2\nv,a,1500,3,\nu,a,1000,0,c1\nu,c,2000,4,\n",
              "user=who,item=what,timestamp=when:ms,action=stars,id=click");
    REQUIRE(read.users.rows.size() == 2);
    CHECK(read.users.rows[0] == PutUser{.user = "u",
                                        .history = {"a", "b", "c"},
                                        .features = {{"timestamps", {1, 2, 2}}, {"actions", {0, 5, 4}}},
                                        .event_ids = {"c1", "c2", ""}});
    CHECK(read.users.rows[1].user == "v");
    CHECK(read.events == 4);
    CHECK(read.first == 1);
    CHECK(read.last == 2);
    CHECK(read.users.where(0) == "table:4");
    CHECK(read.users.where_event(0, 1) == "table:2");
  }

  TEST_CASE_FIXTURE(
      Shop, "table events: values that the model does not read are used for the order only, or not at all") {
    const TableUsers read = users("u,i,t,r\nx,b,20,nothing\nx,a,10,\n", "user=u,item=i,timestamp=t,action=r");
    CHECK(read.users.rows.at(0) == PutUser{.user = "x", .history = {"a", "b"}});
    CHECK(read.unread == std::vector<std::string>{"action"});
    CHECK(users("u,i\nx,b\nx,a\n", "user=u,item=i").users.rows.at(0).history ==
          std::vector<std::string>{"b", "a"});
    reading.event_features = times_and_actions();
    CHECK(
        users_error("u,i,t\nx,b,1\n", "user=u,item=i,timestamp=t") ==
        "table:1: there is no column for action, which the model reads of events; expected action=COLUMN in "
        "--columns");
  }

  TEST_CASE_FIXTURE(Shop, "table events: an event with the id of an earlier one of the user is left out") {
    const TableUsers read = users("u,i,id\nx,a,e1\nx,b,e1\ny,b,e1\nx,c,\nx,d,\n", "user=u,item=i,id=id");
    CHECK(read.users.rows.at(0).history == std::vector<std::string>{"a", "c", "d"});
    CHECK(read.users.rows.at(1).history == std::vector<std::string>{"b"});
    CHECK(read.repeated == 1);
  }

  TEST_CASE_FIXTURE(Shop, "table events: the newest events are kept, as many as a history may have") {
    reading.rows.limits.history_events_max = 2;
    const TableUsers read =
        users("u,i,t\nx,new,30\nx,old,10\nx,mid,20\ny,a,1\n", "user=u,item=i,timestamp=t");
    CHECK(read.users.rows.at(0).history == std::vector<std::string>{"mid", "new"});
    CHECK(read.cut == 1);
    CHECK(read.cut_users == 1);
  }

  TEST_CASE_FIXTURE(Shop, "table events: events within a second are sorted by what is below it") {
    const char* const columns = "user=u,item=i,timestamp=t:";
    const std::vector<std::string> in_order{"a", "b", "c"};
    CHECK(users("u,i,t\nx,c,1900\nx,b,1002\nx,a,1001\n", columns + std::string("ms"))
              .users.rows.at(0)
              .history == in_order);
    CHECK(users("u,i,t\nx,c,1.9\nx,b,1.25\nx,a,1.1\n", columns + std::string("s")).users.rows.at(0).history ==
          in_order);
    CHECK(
        users("u,i,t\nx,b,2018-05-03 10:00:00.5\nx,c,2018-05-03T12:00:00.6+02:00\nx,a,2018-05-03 10:00:00\n",
              columns + std::string("iso"))
            .users.rows.at(0)
            .history == in_order);
  }

  TEST_CASE_FIXTURE(Shop, "table events: times from 2200 on are refused") {
    const auto error = [&](const std::string& time, const char* form) {
      return users_error("u,i,t\nx,a," + time + "\n", std::string("user=u,item=i,timestamp=t") + form);
    };
    CHECK(error("7258118399", "") == "none");
    CHECK(error("7258118400", "")
              .find("which is 2200-01-01T00:00:00Z; expected a time before 2200; the form") !=
          std::string::npos);
    CHECK(error("2200-01-01", ":iso").ends_with("expected a time before 2200"));
  }

  TEST_CASE_FIXTURE(Shop, "table rows: a row that repeats the header is refused") {
    CHECK(users_error("u,i\nx,a\nu,i\ny,b\n", "user=u,item=i") ==
          "table:3: the line repeats the header; expected one header, at the beginning, if files are joined");
    CHECK(users_error("u\ti\nx\ta\nu\ti\n", "user=u,item=i", TableKind::tsv)
              .starts_with("table:3: the line repeats the header"));
    set_item_names();
    reading.skip_unknown = true;
    CHECK(items("item\n1\nitem\n", "item=item").left_out == 1);  // of one column, by chance
  }

  TEST_CASE_FIXTURE(Shop, "table rows: a member that no line of JSON has, or only later ones, is refused") {
    const std::string lines =
        "{\"user\":\"x\",\"item\":\"a\"}\n{\"user\":\"x\",\"item\":\"b\",\"id\":\"e\"}\n";
    CHECK(users(lines, "user=user,item=item,id=id", TableKind::jsonl).users.rows.at(0).event_ids ==
          std::vector<std::string>{"", "e"});
    CHECK(users_error(lines, "user=user,item=item,id=event", TableKind::jsonl) ==
          "table:2: no line has a member event; expected members of the lines; the first has item, user");
    CHECK(users_error("{\"user\":\"x\",\"item\":\"a\",\"id\":null}", "user=user,item=item,id=id",
                      TableKind::jsonl) == "none");
    const auto rows = table(TableKind::jsonl, lines);
    const TableColumns named = columns_named_as_words(rows->columns());
    CHECK(
        error_of([&] { read_event_table(*rows, named, reading); }) ==
        "table:2: the line has id, which the first line lacks; expected --columns with all members to read, "
        "such as id=id");
    CHECK(users_error("\n", "user=user,item=item", TableKind::jsonl) ==
          "table:1: the file is empty; expected one object a line");
  }

  TEST_CASE_FIXTURE(Shop, "table events: faults name the event's own line") {
    reading.event_features = times_and_actions();
    const auto error = [&](const std::string& row, const char* form = "") {
      return users_error("u,i,ts,action\n\n" + row + "\n",
                         std::string("user=u,item=i,timestamp=ts") + form + ",action=action");
    };
    CHECK(
        error("x,a,1588687728923,1") ==
        "table:3: column ts: timestamp is 1588687728923, which looks like milliseconds; expected seconds "
        "since "
        "1970, a whole number from 0 to 1099511627776, or the column's form, such as timestamp=ts:ms (s, ms, "
        "us, ns or iso)");
    CHECK(error("x,a,2018-05-03,1").find("expected seconds since 1970, or :iso behind the column's name") !=
          std::string::npos);
    CHECK(error("x,a,yesterday,1", ":iso")
              .starts_with("table:3: column ts: timestamp is yesterday; expected a time"));
    CHECK(error("x,a,2,4.5").starts_with("table:3: action is 4.5; expected a whole number"));
    CHECK(error("x,a,2,9") == "table:3: action is 9; expected a number from 0 to 5");
    CHECK(error("x,a,2,").starts_with("table:3: action is \"\""));
    CHECK(error(",a,2,1").starts_with("table:3: column u: user: the id is empty"));
    CHECK(error("x,,2,1").starts_with("table:3: column i: item: the id is empty"));
    CHECK(error("x,a,2").starts_with("table:3: the line has 3 fields; expected 4"));
  }

  TEST_CASE_FIXTURE(Shop, "table events: lines of JSON may have numbers for ids, and members in any order") {
    reading.event_features = times_and_actions();
    const TableUsers read = users(
        "{\"stars\":5.0,\"ts\":\"2018-05-03\",\"asin\":\"a\",\"user\":12,\"text\":\"…\"}\n\n"
        "{\"user\":12,\"asin\":\"b\",\"ts\":\"2018-05-02\",\"stars\":4}\n",
        "user=user,item=asin,timestamp=ts:iso,action=stars", TableKind::jsonl);
    CHECK(read.users.rows.at(0) ==
          PutUser{.user = "12",
                  .history = {"b", "a"},
                  .features = {{"timestamps", {1'525'219'200, 1'525'305'600}}, {"actions", {4, 5}}}});
    const auto error = [&](const std::string& row) {
      return users_error(row, "user=user,item=asin,timestamp=ts,action=stars", TableKind::jsonl);
    };
    CHECK(error("{\"user\":12.0,\"asin\":\"b\",\"ts\":1,\"stars\":4}")
              .starts_with("table:1: user is 12.0; expected a text or a whole number"));
    CHECK(error("{\"user\":null,\"asin\":\"b\",\"ts\":1,\"stars\":4}")
              .starts_with("table:1: user: the id is empty"));
    CHECK(error("{\"user\":\"x\",\"asin\":{},\"ts\":1,\"stars\":4}").starts_with("table:1: asin is object"));
    CHECK(error("{\"user\":\"x\",\"asin\":\"b\",\"ts\":[1],\"stars\":4}")
              .starts_with("table:1: column ts: timestamp is a list; expected a time"));
    CHECK(error("{\"user\":\"x\",\"asin\":\"b\",\"ts\":1,\"stars\":[4]}")
              .starts_with("table:1: column stars: action is a list"));
    CHECK(error("[1]").starts_with("table:1: the line is array"));
    CHECK(error("{\"user\":\"x\"").starts_with("table:1: "));
  }

  TEST_CASE_FIXTURE(Shop, "table histories: lists of JSON, or values with blanks between them") {
    reading.event_features = times_and_actions();
    const PutUser expected{.user = "x",
                           .history = {"a", "b"},
                           .features = {{"timestamps", {1, 2}}, {"actions", {5, 0}}},
                           .event_ids = {}};
    const char* const columns = "user=u,history=h,timestamps=t:ms,actions=a";
    CHECK(users("u\th\tt\ta\nx\ta b\t1000 2999\t5 0\n", columns, TableKind::tsv).users.rows.at(0) ==
          expected);
    CHECK(
        users("{\"u\":\"x\",\"h\":[\"a\",\"b\"],\"t\":[1000,2999],\"a\":[5,0.0]}", columns, TableKind::jsonl)
            .users.rows.at(0) == expected);
    CHECK(users("u,h,t,a\nnew,,,\n", columns).users.rows.at(0).history.empty());
    CHECK(users_error("u,h,t,a\nx,a b,1000,5 0\n", columns) ==
          "table:2: column t: timestamps has 1 elements; expected 2, one for each event of the history");
    CHECK(users_error("u,h,t,a\nx,a b,1000 x,5 0\n", columns)
              .starts_with("table:2: column t: timestamps[1] is x"));
    reading.rows.limits.history_events_max = 1;
    CHECK(users_error("u,h,t,a\nx,a b,1000 2000,5 0\n", columns).find("router.history_events_max") !=
          std::string::npos);
  }
}

}  // namespace table_rows_test
