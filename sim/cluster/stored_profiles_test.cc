#include "sim/cluster/stored_profiles.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::sim;

namespace {

SentRequest sent(Message request, Instant at = {}, NodeId router = 1) {
  SentRequest asked;
  asked.request = std::move(request);
  asked.sent = at;
  asked.router = router;
  return asked;
}

RankRequest rank_of(Freshness features = Freshness::configured) {
  RankRequest request{.user = "u1"};
  request.features = features;
  return request;
}

}  // namespace

TEST_CASE(
    "stored profiles: a strict request must see what is known to be stored, a lenient one what expired") {
  const WorldData world{WorldOptions{}};
  StoredProfiles stored({.expiry = {100}, .stale_for = {400}, .unknown_expiry = {50}});
  stored.learn(sent(PutUser{.user = "u1"}), 3, {1'000});
  stored.learn(sent(PutUser{.user = "u1"}), 5, {1'200});
  stored.learn(sent(PutUser{.user = "u1"}), 4, {1'250});  // an older write is answered later
  SentRequest strict = sent(rank_of(), {1'300}, 2);
  stored.note_sent(strict, world);
  CHECK(strict.profile_known == 5);
  CHECK(strict.profile_stale == 5);
  SentRequest lenient = sent(rank_of(Freshness::behind), {1'250}, 2);
  stored.note_sent(lenient, world);
  CHECK(lenient.profile_known == 3);
  CHECK(lenient.profile_stale == 0);
  SentRequest own =
      sent(rank_of(Freshness::behind), {1'250}, 1);  // this router has written the newest version
  stored.note_sent(own, world);
  CHECK(own.profile_known == 5);
}

TEST_CASE("stored profiles: the same events are appended once, and unknown after the user was put") {
  StoredProfiles stored({});
  const auto note = [&](const char* id, std::int64_t sent, std::int64_t now, bool are_new) {
    return stored.note_appended({.user = "u1", .tokens = {1}, .event_ids = {id}}, {sent}, {now}, are_new);
  };
  CHECK(note("e1", 1, 2, true));
  CHECK_FALSE(note("e1", 1, 3, true));
  CHECK(note("e2", 1, 5, false));
  CHECK(note("e2", 4, 6, true));  // sent before that answer
  CHECK(note("e3", 1, 5, false));
  CHECK_FALSE(note("e3", 6, 7, true));
  const WorldData world{WorldOptions{}};
  SentRequest put = sent(PutUser{.user = "u1"});
  stored.note_sent(put, world);
  CHECK(note("e1", 8, 9, true));
}
