#include "runtime/redis/redis_scripts.h"

#include <doctest/doctest.h>

using namespace troupe;

namespace {

using Kind = RedisReply::Kind;

RedisReply text(std::string value) { return {.kind = Kind::text, .text = std::move(value)}; }
RedisReply integer(std::int64_t value) { return {.kind = Kind::integer, .integer = value}; }
RedisReply list(std::vector<RedisReply> values) { return {.kind = Kind::list, .list = std::move(values)}; }

const PageQuestion question{"o", 3, 3, 10, "ann"};

// A page of two changes: a at 4, b deleted at 6.
RedisReply good_page() {
  return list({text("o"), integer(3), integer(6), list({text("a"), text("4"), text("b"), text("6")}),
               list({text("record"), {}}), text("7 row"), integer(7), text("m")});
}
bool is_read(auto spoil) {
  RedisReply page = good_page();
  spoil(page.list);
  return read_page(page, question).has_value();
}

}  // namespace

TEST_CASE("redis scripts: a page is read with rising versions; no row means deleted") {
  RedisReply reply = good_page();
  const auto page = read_page(reply, question);
  REQUIRE(page);
  CHECK(page->version == 6);
  REQUIRE(page->entries.size() == 2);
  CHECK(page->entries[0].record == "record");
  CHECK_FALSE(page->entries[1].record);
  CHECK(page->user == "7 row");
  CHECK(page->profiles == 7);
  CHECK(page->made_for == "m");
  CHECK(is_read([](auto& p) { p[5] = {}; }));
  CHECK(is_read([](auto& p) { p[1] = integer(0); }));  // from the start, though not requested
}

TEST_CASE("redis scripts: a page of another form or out of range is rejected") {
  CHECK(is_read([](auto&) {}));
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK_FALSE(is_read([&](auto& p) { p[i] = {.kind = Kind::error, .text = "ERR"}; }));
    CHECK_FALSE(is_read([&](auto& p) { p.erase(p.begin() + static_cast<std::ptrdiff_t>(i)); }));
  }
  CHECK_FALSE(is_read([](auto& p) { p[1] = integer(2); }));  // neither the requested start nor 0
  CHECK_FALSE(is_read([](auto& p) { p[2] = integer(5); }));  // b is newer than the catalog
  CHECK_FALSE(is_read([](auto& p) { p[2] = integer(-1); }));
  CHECK_FALSE(is_read([](auto& p) { p[2] = integer(std::int64_t{1} << 60); }));
  CHECK_FALSE(is_read([](auto& p) { p[3].list[1] = text("6"); }));  // does not rise
  CHECK_FALSE(is_read([](auto& p) { p[3].list[1] = text("3"); }));  // not above the start
  CHECK_FALSE(is_read([](auto& p) { p[3].list[1] = text("4.5"); }));
  CHECK_FALSE(is_read([](auto& p) { p[6] = integer(-1); }));
  CHECK_FALSE(is_read([](auto& p) { p[3].list[0] = integer(1); }));
  CHECK_FALSE(is_read([](auto& p) { p[3].list.pop_back(); }));
  CHECK_FALSE(is_read([](auto& p) { p[4].list[1] = integer(1); }));
  PageQuestion one = question;
  one.items = 1;
  RedisReply page = good_page();
  CHECK_FALSE(read_page(page, one));
}

TEST_CASE("redis scripts: a full page is replaced by its size, except for a caller who reads on") {
  RedisReply many = list({text("o"), integer(3), integer(600)});
  const auto page = read_page(many, question);
  REQUIRE(page);
  CHECK(page->many);
  CHECK(page->version == 600);
  CHECK(page->entries.empty());
  PageQuestion full = question;
  full.full = true;
  RedisReply refused = list({text("o"), integer(3), integer(600)}), good = good_page();
  CHECK_FALSE(read_page(refused, full));
  REQUIRE(read_page(good, full));
  CHECK_FALSE(read_page(good, full)->many);
}

namespace {

const ItemQuestion two_items{"ann", {"a", "b"}};

// Item a, written at 4; b is not there.
RedisReply good_items() {
  return list({text("o"), integer(6), list({text("record"), {}}), list({integer(4), integer(0)}),
               text("7 row"), integer(7), text("m"), integer(12)});
}
bool are_read(auto spoil) {
  RedisReply page = good_items();
  spoil(page.list);
  return read_items(page, two_items).has_value();
}

}  // namespace

TEST_CASE("redis scripts: items are read with their versions; no record means that there is no such item") {
  RedisReply reply = good_items();
  const auto page = read_items(reply, two_items);
  REQUIRE(page);
  CHECK(page->origin == "o");
  CHECK(page->version == 6);
  REQUIRE(page->rows.size() == 2);
  CHECK(page->rows[0].record == "record");
  CHECK(page->rows[0].version == 4);
  CHECK_FALSE(page->rows[1].record);
  CHECK(page->user == "7 row");
  CHECK(page->profiles == 7);
  CHECK(page->made_for == "m");
  CHECK(page->items == 12);
  CHECK(are_read([](auto& p) { p[4] = {}, p[6] = {}; }));
}

TEST_CASE("redis scripts: items of another form or out of range are rejected") {
  CHECK(are_read([](auto&) {}));
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK_FALSE(are_read([&](auto& p) { p[i] = {.kind = Kind::error, .text = "ERR"}; }));
    CHECK_FALSE(are_read([&](auto& p) { p.erase(p.begin() + static_cast<std::ptrdiff_t>(i)); }));
  }
  CHECK_FALSE(are_read([](auto& p) { p[1] = integer(3); }));  // a is newer than the catalog
  CHECK_FALSE(are_read([](auto& p) { p[2].list.pop_back(); }));
  CHECK_FALSE(are_read([](auto& p) { p[3].list.pop_back(); }));
  CHECK_FALSE(are_read([](auto& p) { p[2].list[0] = integer(1); }));
  CHECK_FALSE(are_read([](auto& p) { p[3].list[0] = integer(-1); }));
  CHECK_FALSE(are_read([](auto& p) { p[7] = integer(-1); }));
}

TEST_CASE("redis scripts: a user's row is a version and a record") {
  CHECK(split_user_row("12 record") == std::pair(std::uint64_t{12}, std::string_view("record")));
  for (const char* row : {"", "12", " record", "-1 record", "1x record", "99999999999999999999 record"})
    CHECK_FALSE(split_user_row(row));
}

TEST_CASE("redis scripts: an outcome is a known word, with a version where expected") {
  CHECK(read_outcome(list({text("written"), integer(8)}))->version == 8);
  CHECK(read_outcome(list({text("changed")}))->what == WriteOutcome::What::changed);
  CHECK_FALSE(read_outcome(list({text("written")})));
  CHECK_FALSE(read_outcome(list({text("written"), integer(-8)})));
  CHECK_FALSE(read_outcome(list({text("full"), integer(8)})));
  CHECK_FALSE(read_outcome(list({text("done")})));
  CHECK_FALSE(read_outcome(list({})));
  CHECK_FALSE(read_outcome(text("written")));
}

TEST_CASE("redis scripts: all keys have the prefix") {
  const RedisKeys keys("shop:");
  CHECK(keys.user("k") == "shop:user:k");
  const RedisCommand command = ask_delete_user(keys, "k", 5);
  CHECK(std::vector(command.begin() + 2, command.begin() + 8) ==
        std::vector<std::string>{"5", "shop:meta", "shop:items", "shop:log", "shop:gone", "shop:user:k"});
}
