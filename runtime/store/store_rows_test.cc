#include "runtime/store/store_rows.h"

#include <doctest/doctest.h>

#include "runtime/store/store_record.h"

using namespace troupe;

namespace {

const FeatureLimits limits{.vocabulary = 100, .item_tokens_max = 4, .history_events_max = 3};

PutItem good_item() { return {0, "film", "A Film", {1, 2}, 50}; }
PutUser good_user() { return {0, "tenant", "ann", {}, {1, 2, 3}}; }

template <class Row>
std::string fault(const Row& row) {
  const auto refusal = validate_row(row, limits);
  return refusal ? std::string(name_of(refusal->kind)) + " " + refusal->code + " " + refusal->where : "";
}

template <class Row, class Spoil>
std::string fault_of(Row row, Spoil spoil) {
  spoil(row);
  return fault(row);
}

}  // namespace

TEST_CASE("store rows: a valid item, user and empty profile are accepted") {
  CHECK(fault(good_item()) == "");
  CHECK(fault(good_user()) == "");
  CHECK(fault(PutUser{0, "", "ann"}) == "");
}

TEST_CASE("store rows: a refused item names its field") {
  const auto of = [](auto spoil) { return fault_of(good_item(), spoil); };
  CHECK(of([](PutItem& i) { i.item = ""; }) == "malformed empty_item item");
  CHECK(of([](PutItem& i) { i.item = std::string(257, 'x'); }) == "too_large id_too_long item");
  CHECK(of([](PutItem& i) { i.item = std::string(256, 'x'); }) == "");
  CHECK(of([](PutItem& i) { i.title = std::string(4097, 'x'); }) == "unprocessable bad_title title");
  CHECK(of([](PutItem& i) { i.tokens = {}; }) == "malformed empty_item tokens");
  CHECK(of([](PutItem& i) { i.tokens = {1, 2, 3, 4, 5}; }) == "unprocessable too_many_tokens tokens");
  CHECK(of([](PutItem& i) { i.tokens = {0, 99, 100}; }) == "unprocessable unknown_token tokens[2]");
  CHECK(of([](PutItem& i) { i.tokens = {0, -1}; }) == "unprocessable unknown_token tokens[1]");
  CHECK(of([](PutItem& i) { i.identifier = no_identifier; }) == "");
  CHECK(of([](PutItem& i) { i.identifier = -2; }) == "unprocessable unknown_token identifier");
  CHECK(of([](PutItem& i) { i.identifier = 100; }) == "unprocessable unknown_token identifier");
}

TEST_CASE("store rows: a refused user names its field") {
  const auto of = [](auto spoil) { return fault_of(good_user(), spoil); };
  CHECK(of([](PutUser& u) { u.user = ""; }) == "malformed empty_user user");
  CHECK(of([](PutUser& u) { u.tenant = std::string(257, 'x'); }) == "too_large id_too_long tenant");
  CHECK(of([](PutUser& u) { u.history = {"film"}; }) == "unprocessable bad_history history, tokens");
  CHECK(of([](PutUser& u) { u.tokens = {}, u.history.assign(4, "film"); }) ==
        "unprocessable too_many_events history");
  CHECK(of([](PutUser& u) { u.tokens.assign(12, 1); }) == "");
  CHECK(of([](PutUser& u) { u.tokens.assign(13, 1); }) == "unprocessable too_many_tokens tokens");
  CHECK(of([](PutUser& u) { u.tokens = {1, 100}; }) == "unprocessable unknown_token tokens[1]");
}

TEST_CASE("store rows: events need exactly the model's features, one value per event") {
  FeatureLimits timed = limits;
  timed.event_features = {{.name = "timestamps", .ascending = true, .least = 0, .most = 1'000},
                          {.name = "actions"}};
  const auto with = [&](std::vector<Feature> features) {
    PutUser user = good_user();
    user.tokens = {1, 2, 3};
    user.features = std::move(features);
    const auto refusal = validate_row(user, timed);
    return refusal ? refusal->code + " " + refusal->where + ": " + refusal->what + "; " + refusal->expected
                   : "";
  };
  const Feature times{"timestamps", {5, 5, 1'000}}, actions{"actions", {-1, 0, 7}};
  CHECK(with({times, actions}) == "");
  CHECK(with({actions, times}) == "");
  CHECK(with({times}) == "missing_feature actions: the events have no actions; \"timestamps\", \"actions\"");
  CHECK(with({times, times}) == "bad_feature timestamps: timestamps is given twice; each feature once");
  CHECK(with({{"times", {}}}) ==
        "unknown_feature times: the model takes no feature \"times\"; \"timestamps\", \"actions\"");
  CHECK(with({{"", {}}}).starts_with("unknown_feature features: "));
  CHECK(with({{"timestamps", {5, 6}}, actions}) ==
        "bad_feature timestamps: timestamps has 2 values; 3, one for each event");
  CHECK(with({{"timestamps", {5, 4, 6}}, actions}) ==
        "bad_feature timestamps[1]: timestamps[1] is 4; a number from 5 to 1000, not below the one "
        "before");
  CHECK(with({{"timestamps", {5, 6, 1'001}}, actions}).starts_with("bad_feature timestamps[2]"));
  CHECK(with({{"timestamps", {-1, 6, 7}}, actions}).starts_with("bad_feature timestamps[0]"));
  CHECK(!validate_row(PutUser{0, "", "ann"}, timed));  // no events
  PutUser user = good_user();
  user.features = {times};
  CHECK(validate_row(user, limits)->code == "unknown_feature");
}

TEST_CASE("store rows: a profile's features are read back; without the model's it is absent") {
  FeatureLimits timed = limits;
  timed.event_features = {{.name = "timestamps"}};
  const Profile profile{7, {1, 2, 3}, {2, 1}, {{"timestamps", {-5, std::int64_t{1} << 60}}}};
  const std::string record = encode_profile(profile, "k");
  CHECK(decode_profile("k", record, timed) == profile);
  CHECK(!decode_profile("k", record, limits));
  Profile bare = profile;
  bare.features.clear();
  CHECK(!decode_profile("k", encode_profile(bare, "k"), timed));
  CHECK(decode_profile("k", encode_profile(bare, "k"), limits) == bare);
}

TEST_CASE("store rows: event names are read back after a profile, and requests skip them") {
  FeatureLimits timed = limits;
  timed.event_features = {{.name = "timestamps"}};
  const Profile profile{7, {1, 2, 3}, {2, 1}, {{"timestamps", {-5, 4}}}};
  const EventNames names{{"film", ""}, {"e1", "e2"}};
  const std::string record = encode_profile(profile, "k", names);
  CHECK(decode_profile("k", record, timed) == profile);
  CHECK(decode_stored_profile("k", record, timed) == StoredProfile{profile, names});
  CHECK(decode_stored_profile("k", encode_profile(profile, "k"), timed) == StoredProfile{profile, {}});
  CHECK_FALSE(decode_stored_profile("k", encode_profile(profile, "k", {{"film"}, {}}), timed));
}

TEST_CASE(
    "store rows: a stored profile is absent if it violates the limits or its names do not fit its "
    "events") {
  const Profile profile{7, {1, 2, 3}, {2, 1}};
  const EventNames both{{"film", ""}, {"e1", "e2"}};
  const auto decoded = [](const Profile& stored, const EventNames& names) {
    return decode_stored_profile("k", encode_profile(stored, "k", names), limits);
  };
  CHECK(decoded(profile, both) == StoredProfile{profile, both});
  for (const EventNames& one : {EventNames{both.items, {}}, EventNames{{}, both.ids}})
    CHECK(decoded(profile, one) == StoredProfile{profile, one});
  for (const EventNames& names : {both, EventNames{}}) {
    CHECK_FALSE(decoded({7, {1, 2, 3}, {2, 2}}, names));
    CHECK_FALSE(decoded({7, {1, 2, 100}, {2, 1}}, names));
    CHECK_FALSE(decode_stored_profile("l", encode_profile(profile, "k", names), limits));
  }
  CHECK_FALSE(decode_stored_profile("k", encode_counter(7, "k"), limits));
  CHECK_FALSE(decoded(profile, {{}, {"e1"}}));
  CHECK_FALSE(decoded(profile, {{}, {"e1", "e2", "e3"}}));
}

TEST_CASE("store rows: names whose lengths do not match their text are refused") {
  using Lengths = std::vector<std::uint32_t>;
  const auto decoded = [](const Lengths& lengths, const char* text, const char* more = nullptr) {
    RecordWriter writer(RecordType::profile);
    writer.u64(7).list(std::vector<std::int32_t>{1, 2, 3}).list(Lengths{2, 1}).text("");
    writer.list(lengths).text(text).list(Lengths{}).text("");
    if (more) writer.text(more);
    return decode_stored_profile("k", writer.seal("k"), limits);
  };
  const auto sound = decoded({1, 2}, "abc");
  REQUIRE(sound);
  CHECK(sound->names == EventNames{{"a", "bc"}, {}});
  CHECK_FALSE(decoded({1, 1}, "abc"));
  CHECK_FALSE(decoded({1, 3}, "abc"));
  CHECK_FALSE(decoded({0xFFFFFFFF, 4}, "abc"));
  CHECK_FALSE(decoded({}, ""));  // a marker for names, but no names
  CHECK_FALSE(decoded({1, 2}, "abc", "more"));
}

TEST_CASE("store rows: each bound holds up to its number") {
  const auto of_user = [](auto spoil) { return fault_of(good_user(), spoil); };
  const auto of_item = [](auto spoil) { return fault_of(good_item(), spoil); };
  CHECK(of_user([](PutUser& u) { u.tokens = {}, u.history.assign(3, "film"); }) == "");
  CHECK(of_user([](PutUser& u) { u.tokens.assign(12, 99); }) == "");
  CHECK(of_user([](PutUser& u) { u.user = std::string(256, 'x'), u.tenant = u.user; }) == "");
  CHECK(of_user([](PutUser& u) { u.user = std::string(257, 'x'); }) == "too_large id_too_long user");
  CHECK(of_user([](PutUser& u) { u.event_ids = {"a", std::string(256, 'x'), ""}; }) == "");
  CHECK(of_user([](PutUser& u) {
          u.event_ids = {"a", std::string(257, 'x'), ""};
        }) == "unprocessable bad_event_ids event_ids[1]");
  CHECK(of_user([](PutUser& u) { u.event_ids = {"a", "b"}; }) == "unprocessable bad_event_ids event_ids");
  CHECK(of_item([](PutItem& i) { i.tokens = {1, 2, 3, 4}, i.title = std::string(4096, 'x'); }) == "");
  CHECK(of_item([](PutItem& i) { i.identifier = 99; }) == "");
  CHECK(of_item([](PutItem& i) { i.identifier = 0; }) == "");
  CHECK(of_item([](PutItem& i) { i.identifier = no_identifier; }) == "");
}

TEST_CASE(
    "store rows: appended events need no order, as they are sorted in later; their bounds still "
    "hold") {
  FeatureLimits timed = limits;
  timed.event_features = {{.name = "timestamps", .ascending = true, .least = 0, .most = 1'000}};
  AppendEvents events;
  events.user = "ann", events.tokens = {1, 2, 3}, events.features = {{"timestamps", {5, 4, 1'000}}};
  CHECK_FALSE(validate_row(events, timed));
  events.features[0].values[1] = -1;
  CHECK(validate_row(events, timed)->expected == "a number from 0 to 1000");
  events.user = "";
  CHECK(validate_row(events, timed)->code == "empty_user");
}

TEST_CASE("store rows: a refusal of appended events names the member of the event") {
  FeatureLimits timed = limits;
  timed.event_features = {{.name = "timestamps", .least = 0}, {.name = "actions"}};
  const auto with = [&](const auto& change) {
    AppendEvents events{.user = "ann", .tokens = {1, 2}, .event_ids = {"a", "b"}};
    events.features = {{"timestamps", {5, 6}}, {"actions", {1, 1}}};
    change(events);
    const auto refusal = validate_row(events, timed);
    return refusal ? refusal->code + " " + refusal->where + ": " + refusal->what : "";
  };
  CHECK(with([](AppendEvents&) {}) == "");
  CHECK(with([](AppendEvents& e) { e.features[0].values[1] = -1; }) ==
        "bad_feature events[1].timestamp: events[1].timestamp is -1");
  CHECK(with([](AppendEvents& e) { e.features.pop_back(); }) ==
        "missing_feature events[0].action: the events have no action");
  CHECK(with([](AppendEvents& e) { e.features[1].name = "dwells"; }) ==
        "unknown_feature events[0].dwell: the model takes no feature \"dwell\"");
  CHECK(with([](AppendEvents& e) { e.tokens[1] = -1; }).starts_with("unknown_token events[1].tokens[0]"));
  CHECK(with([](AppendEvents& e) {
          e.event_ids[1] = std::string(300, 'x');
        }).starts_with("bad_event_ids events[1].id"));
  CHECK(with([](AppendEvents& e) {
          e.tokens = {}, e.history.assign(4, "film");
        }).starts_with("too_many_events events"));
  CHECK(with([](AppendEvents& e) { e.tokens.assign(13, 1); }).starts_with("too_many_tokens events"));
}

TEST_CASE(
    "store rows: a key begins with the tenant's length, highest byte first; notes open under their key "
    "only") {
  CHECK(user_key("ab", "c") == std::string("\0\0\0\2abc", 7));
  CHECK(user_key(std::string(258, 'x'), "").substr(0, 4) == std::string("\0\0\1\2", 4));
  CHECK(decode_note("k", encode_note("text", "k")) == "text");
  CHECK_FALSE(decode_note("l", encode_note("text", "k")));
  CHECK_FALSE(decode_note("k", encode_counter(4, "k")));
}

TEST_CASE("store rows: a bad token is refused with its value and the range") {
  PutItem item = good_item();
  item.tokens = {7, 123};
  const auto refusal = validate_row(item, limits);
  REQUIRE(refusal);
  CHECK(refusal->what == "token 123 is outside the vocabulary");
  CHECK(refusal->expected == "0..99");
}

TEST_CASE("store rows: keys of different tenants and users never collide") {
  CHECK(user_key("a", "bc") != user_key("ab", "c"));
  CHECK(user_key("", "abc") != user_key("abc", ""));
  CHECK(user_key("a", "b") == user_key("a", "b"));
}

TEST_CASE("store rows: profiles, items and counters are read back unchanged") {
  const Profile profile{7, {1, 2, 3}, {2, 1}};
  CHECK(decode_profile("k", encode_profile(profile, "k"), limits) == profile);
  const Item item{"film", "A Film", {1, 2}, 50, {}};
  const auto stored = decode_item("film", encode_item(item, 9, "film"), limits);
  REQUIRE(stored);
  CHECK(stored->item == item);
  CHECK(stored->catalog == 9);
  CHECK(decode_counter("k", encode_counter(12, "k")) == 12);
}

TEST_CASE("store rows: a row is absent under another key or type, or if it violates the limits") {
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
