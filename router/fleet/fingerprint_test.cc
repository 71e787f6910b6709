#include "router/fleet/fingerprint.h"

#include <doctest/doctest.h>

#include "runtime/actor/user_home.h"

namespace troupe::router {
namespace {

TEST_CASE("fingerprint: covers the content, not the requester or the time budget") {
  const RankRequest one{1, "t", "ann", {"a", "b"}, 0, "bat", 50};
  CHECK(fingerprint(one, 3) == fingerprint(RankRequest{2, "t", "ann", {"a", "b"}, 1, "user", 60}, 3));
  CHECK(fingerprint(one, 3) != fingerprint(one, 4));
  CHECK(fingerprint(one, 3) != fingerprint(RankRequest{1, "", "tann", {"a", "b"}}, 3));
  CHECK(fingerprint(one, 3) != fingerprint(RankRequest{1, "t", "ann", {"ab"}}, 3));
  CHECK(fingerprint(one, 3) != fingerprint(RankRequest{1, "t", "ann", {"b", "a"}}, 3));
  CHECK(fingerprint(one, 3) != fingerprint(RankRequest{1, "t", "bob", {"a", "b"}}, 3));
  CHECK(fingerprint(one, 3) != fingerprint(RankRequest{1, "u", "ann", {"a", "b"}}, 3));
  const GenerateRequest generate{1, "t", "ann", 5, 20, false, {"a"}, {"b"}};
  CHECK(fingerprint(generate, 3) ==
        fingerprint(GenerateRequest{2, "t", "ann", 5, 20, false, {"a"}, {"b"}, false, 9}, 3));
  CHECK(fingerprint(generate, 3) != fingerprint(generate, 4));
  for (const GenerateRequest& other : {GenerateRequest{1, "u", "ann", 5, 20, false, {"a"}, {"b"}},
                                       GenerateRequest{1, "t", "ann", 6, 20, false, {"a"}, {"b"}},
                                       GenerateRequest{1, "t", "ann", 5, 21, false, {"a"}, {"b"}},
                                       GenerateRequest{1, "t", "ann", 5, 20, true, {"a"}, {"b"}},
                                       GenerateRequest{1, "t", "ann", 5, 20, false, {"a", "b"}, {}},
                                       GenerateRequest{1, "t", "ann", 5, 20, false, {}, {"a", "b"}},
                                       GenerateRequest{1, "t", "ann", 5, 20, false, {"a"}, {"b"}, true}})
    CHECK(fingerprint(generate, 3) != fingerprint(other, 3));
  const CompleteRequest complete{1, "t", "m", {5, 6}, 3, 2, 4, false, false, 9};
  CHECK(fingerprint(complete) == fingerprint(CompleteRequest{2, "t", "", {5, 6}, 3, 2, 4, false, true, 8}));
  for (const CompleteRequest& other :
       {CompleteRequest{1, "u", "m", {5, 6}, 3, 2, 4}, CompleteRequest{1, "t", "m", {5}, 3, 2, 4},
        CompleteRequest{1, "t", "m", {5, 6}, 4, 2, 4}, CompleteRequest{1, "t", "m", {5, 6}, 3, 1, 4},
        CompleteRequest{1, "t", "m", {5, 6}, 3, 2, 5}, CompleteRequest{1, "t", "m", {5, 6}, 3, 2, 4, true}})
    CHECK(fingerprint(complete) != fingerprint(other));
  const ScoreRequest score{1, "t", {5}, {{{6}}, {{7}}}, {8}};
  CHECK(fingerprint(score) == fingerprint(ScoreRequest{9, "t", {5}, {{{6}}, {{7}}}, {8}, true}));
  for (const ScoreRequest& other :
       {ScoreRequest{1, "t", {5}, {{{6, 7}}}, {8}}, ScoreRequest{1, "t", {5}, {{{6}}, {{7}}}, {9}},
        ScoreRequest{1, "t", {5}, {{{6}}, {{7}}}, {8, 8}}, ScoreRequest{1, "t", {4}, {{{6}}, {{7}}}, {8}},
        ScoreRequest{1, "u", {5}, {{{6}}, {{7}}}, {8}}, ScoreRequest{1, "t", {5, 8}, {{{6}}, {{7}}}, {}},
        ScoreRequest{1, "t", {5}, {{{7}}, {{6}}}, {8}}})
    CHECK(fingerprint(score) != fingerprint(other));
}

template <class M>
void check_own_history() {
  const M one{.history = {"a", "b"}, .event_features = {{"timestamps", {1, 2}}}, .own_history = true};
  CHECK(fingerprint(one, 0) == fingerprint(M(one), 0));
  M other = one;
  other.history = {"a", "c"};
  CHECK(fingerprint(one, 0) != fingerprint(other, 0));
  other = one;
  other.event_features[0].values[1] = 3;
  CHECK(fingerprint(one, 0) != fingerprint(other, 0));
  other = one;
  other.event_features[0].name = "actions";
  CHECK(fingerprint(one, 0) != fingerprint(other, 0));
  other = {.history_tokens = {1, 2}, .own_history = true};
  CHECK(fingerprint(M{.history_tokens = {1, 3}}, 0) != fingerprint(other, 0));
  CHECK(fingerprint(M{.history = {"a", "x"}}, 0) !=
        fingerprint(M{.history = {"a"}, .event_features = {{"x", {}}}}, 0));
}

TEST_CASE("fingerprint: covers a request's own history with its features") {
  check_own_history<RankRequest>();
  check_own_history<GenerateRequest>();
  check_own_history<EmbedRequest>();
}

TEST_CASE("fingerprint: a ranking is the same under every policy, arrangement and approximation") {
  const RankRequest plain{.tenant = "t", .user = "ann", .candidates = {"a", "b"}};
  RankRequest other = plain;
  other.policy = "all_blocks+30:tail";
  other.approximate = 0.5;
  for (const Arrangement named : {Arrangement::causal, Arrangement::user_first, Arrangement::item_first,
                                  Arrangement::candidates_apart}) {
    other.arrangement = named;
    CHECK(fingerprint(other, 3) == fingerprint(plain, 3));
  }
  other.scenario = 1;  // the model reads it
  CHECK(fingerprint(other, 3) != fingerprint(plain, 3));
}

TEST_CASE("share position: users are spread over all thousandths, in another order for another model") {
  std::size_t below = 0, same = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t home = user_hash("t", std::to_string(i));
    const std::uint32_t place = share_position(home, "m2");
    CHECK(place < Versions::all_users);
    CHECK(place == share_position(home, "m2"));
    below += place < 100;
    same += place < 100 && share_position(home, "m3") < 100;
  }
  CHECK(below > 850);
  CHECK(below < 1'150);
  CHECK(same < 200);  // about a tenth of them is expected
}

}  // namespace
}  // namespace troupe::router
