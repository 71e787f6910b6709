#include "runtime/store/store_rows.h"

#include <doctest/doctest.h>

using namespace troupe;

namespace {

const FeatureLimits limits{.vocabulary = 100, .item_tokens_max = 4, .history_events_max = 3};

PutItem good_item() { return {0, "film", "A Film", {1, 2}, 50}; }
PutUser good_user() { return {0, "tenant", "ann", {}, {1, 2, 3}}; }

template <class Row>
std::string fault(const Row& row) {
  const auto refusal = find_fault(row, limits);
  return refusal ? std::to_string(refusal->status) + " " + refusal->code + " " + refusal->where : "";
}

template <class Row, class Spoil>
std::string fault_of(Row row, Spoil spoil) {
  spoil(row);
  return fault(row);
}

}  // namespace

TEST_CASE("a good item and a good user have no fault; an empty profile is a good one") {
  CHECK(fault(good_item()) == "");
  CHECK(fault(good_user()) == "");
  CHECK(fault(PutUser{0, "", "ann"}) == "");
}

TEST_CASE("each fault of an item names its field") {
  const auto of = [](auto spoil) { return fault_of(good_item(), spoil); };
  CHECK(of([](PutItem& i) { i.item = ""; }) == "422 bad_id item");
  CHECK(of([](PutItem& i) { i.item = std::string(257, 'x'); }) == "422 bad_id item");
  CHECK(of([](PutItem& i) { i.item = std::string(256, 'x'); }) == "");
  CHECK(of([](PutItem& i) { i.title = std::string(4097, 'x'); }) == "422 bad_title title");
  CHECK(of([](PutItem& i) { i.tokens = {}; }) == "422 no_tokens tokens");
  CHECK(of([](PutItem& i) { i.tokens = {1, 2, 3, 4, 5}; }) == "422 too_many_tokens tokens");
  CHECK(of([](PutItem& i) { i.tokens = {0, 99, 100}; }) == "422 bad_token tokens[2]");
  CHECK(of([](PutItem& i) { i.tokens = {0, -1}; }) == "422 bad_token tokens[1]");
  CHECK(of([](PutItem& i) { i.identifier = -1; }) == "422 bad_token identifier");
  CHECK(of([](PutItem& i) { i.identifier = 100; }) == "422 bad_token identifier");
}

TEST_CASE("each fault of a user names its field") {
  const auto of = [](auto spoil) { return fault_of(good_user(), spoil); };
  CHECK(of([](PutUser& u) { u.user = ""; }) == "422 bad_id user");
  CHECK(of([](PutUser& u) { u.tenant = std::string(257, 'x'); }) == "422 bad_id tenant");
  CHECK(of([](PutUser& u) { u.history = {"film"}; }) == "422 bad_history history, tokens");
  CHECK(of([](PutUser& u) { u.tokens = {}, u.history.assign(4, "film"); }) == "422 too_many_events history");
  CHECK(of([](PutUser& u) { u.tokens.assign(12, 1); }) == "");
  CHECK(of([](PutUser& u) { u.tokens.assign(13, 1); }) == "422 too_many_tokens tokens");
  CHECK(of([](PutUser& u) { u.tokens = {1, 100}; }) == "422 bad_token tokens[1]");
}

TEST_CASE("a bad token is refused with its value and the range") {
  PutItem item = good_item();
  item.tokens = {7, 123};
  const auto refusal = find_fault(item, limits);
  REQUIRE(refusal);
  CHECK(refusal->what == "token 123 is outside the vocabulary");
  CHECK(refusal->expected == "0..99");
}

TEST_CASE("tenants and users do not run into each other") {
  CHECK(user_key("a", "bc") != user_key("ab", "c"));
  CHECK(user_key("", "abc") != user_key("abc", ""));
  CHECK(user_key("a", "b") == user_key("a", "b"));
}

TEST_CASE("profiles, items and counters come back as they were") {
  const Profile profile{7, {1, 2, 3}, {2, 1}};
  CHECK(decode_profile("k", encode_profile(profile, "k"), limits) == profile);
  const Item item{"film", "A Film", {1, 2}, 50, {}};
  const auto stored = decode_item("film", encode_item(item, 9, "film"), limits);
  REQUIRE(stored);
  CHECK(stored->item == item);
  CHECK(stored->catalog == 9);
  CHECK(decode_counter("k", encode_counter(12, "k")) == 12);
}

TEST_CASE("a row is absent under another key, as another type, or when it could not be stored today") {
  const Profile profile{7, {1, 2, 3}, {2, 1}};
  CHECK_FALSE(decode_profile("l", encode_profile(profile, "k"), limits));
  CHECK_FALSE(decode_counter("k", encode_profile(profile, "k")));
  CHECK_FALSE(decode_profile("k", encode_profile({7, {1, 2, 3}, {2, 2}}, "k"), limits));
  CHECK_FALSE(decode_profile("k", encode_profile({7, {1, 200}, {2}}, "k"), limits));
  const Item item{"film", "A Film", {1, 2}, 50, {}};
  FeatureLimits smaller = limits;
  smaller.vocabulary = 50;
  CHECK_FALSE(decode_item("film", encode_item(item, 9, "film"), smaller));
}
