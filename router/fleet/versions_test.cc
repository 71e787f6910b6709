#include "router/testing/versions_test.h"

namespace troupe::router {
namespace versions_test {

TEST_CASE("versions text: round-trips, also from older writers, and other texts are rejected") {
  const Versions versions{4, "m1", "", "m2", ""}, pair{4, "m1", "c1", "m2", "c2"};
  CHECK(versions_text(versions) == "m1\n\nm2");  // older readers understand it
  CHECK(parse_versions(4, "m1\n\nm2") == versions);
  CHECK(parse_versions(4, "m1\n\nm2\n") == versions);
  CHECK(parse_versions(4, versions_text(pair)) == pair);
  for (const char* bad : {"", "m1", "m1\nc1", "\nc1\n", "m1\nc1\n\nc2", "m1\nc1\nm2\nc2\n"})
    CHECK_FALSE(parse_versions(4, bad).has_value());
}

TEST_CASE("versions text: a share follows the next model, and other texts are rejected") {
  const Versions shared{4, "m1", "c1", "m2", "", 250};
  CHECK(versions_text(shared) == "m1\nc1\nm2\n\n250");
  CHECK(parse_versions(4, versions_text(shared)) == shared);
  CHECK(parse_versions(4, "m1\n\nm2\n\n0")->next_share == 0);
  for (const char* bad : {"m1\nc1\nm2\n\n", "m1\nc1\nm2\n\n1000", "m1\nc1\nm2\n\n-1", "m1\nc1\nm2\n\n5x",
                          "m1\nc1\n\n\n5", "m1\nc1\nm2\n\n5\n"})
    CHECK_FALSE(parse_versions(4, bad).has_value());
}

TEST_CASE("versions: a next model for a share of users stays beside the current model without a limit") {
  Bench b;
  b.round();
  b.keeper.wish("m2", "", 100);
  b.round();
  CHECK(b.value == "m1\nc1\nm2\n\n100");
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::served);
  b.keeper.end_wish({0}, true);
  b.all_load("m2");
  for (const std::int64_t us : {0, 1'000'000, 90'000'000}) b.round(us);
  CHECK(b.value == "m1\nc1\nm2\n\n100");
  b.keeper.wish("m2", "", 500);  // a larger share
  b.round();
  CHECK(b.value == "m1\nc1\nm2\n\n500");
  b.keeper.end_wish({0}, true);
  b.keeper.wish("", "c2");  // a catalog change applies to both models
  b.round();
  CHECK(b.value == "m1\nc2\nm2\n\n500");
  b.keeper.end_wish({0}, true);
  b.keeper.wish("m2", "");  // all users
  for (int i = 0; i < 3; ++i) b.round();
  CHECK(b.value == "m2\nc2\n");
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::served);
}

TEST_CASE("versions: the current model ends a share, and a model that a worker cannot load is taken back") {
  for (const bool is_wished : {true, false}) {
    CAPTURE(is_wished);
    Bench b;
    b.round();
    b.keeper.wish("m2", "", 100);
    b.round();
    b.keeper.end_wish({0}, true);
    if (is_wished) b.keeper.wish("m1", "");
    if (!is_wished) b.refuse_load("m2", b.revision);
    b.round();
    CHECK(b.value == "m1\nc1\n");
  }
}

TEST_CASE("versions: a share that did not reach every worker in time is taken back") {
  Bench b;
  b.round();
  b.keeper.wish("m2", "", 100);
  b.round();
  b.keeper.end_wish({0});
  b.round();
  CHECK(b.value == "m1\nc1\n");
}

TEST_CASE("versions: a share that never reached all workers is taken back without its wish, another stays") {
  for (const bool was_everywhere : {false, true}) {
    CAPTURE(was_everywhere);
    Bench b;
    b.revision = 3;
    b.value = "m1\nc1\nm2\n\n100";
    b.round();
    if (was_everywhere) b.all_load("m2");
    b.round(50);
    b.round(1'000'000);
    CHECK(b.value == "m1\nc1\nm2\n\n100");
    b.round(1'000'001);
    CHECK(b.value == (was_everywhere ? "m1\nc1\nm2\n\n100" : "m1\nc1\n"));
  }
}

TEST_CASE("versions: giving up a catalog leaves the share of two models unchanged") {
  Bench b;
  b.round();
  b.keeper.wish("m2", "", 100);
  b.round();
  b.all_load("m2");
  b.round();
  b.keeper.end_wish({0}, true);
  b.keeper.wish("", "c2");
  b.round();
  b.keeper.end_wish({0});
  b.round();
  CHECK(b.value == "m1\nc2\nm2\n\n100");
}

TEST_CASE("versions: nothing is known before the key is read, and a missing key is written") {
  Bench b;
  CHECK_FALSE(b.keeper.known());
  b.round();
  CHECK(b.keeper.known());
  CHECK(b.value == "m1\nc1\n");
  CHECK(b.keeper.versions() == Versions{1, "m1", "c1", ""});
}

TEST_CASE("versions: newer versions are followed whoever reports them, and never backwards") {
  Bench b;
  b.revision = 7;
  b.value = "m5\nc5\n";
  b.round();
  CHECK(b.keeper.versions() == Versions{7, "m5", "c5", ""});
  b.hear({9, "m6", "c6", ""});
  CHECK(b.keeper.versions().model_version == "m6");
  b.hear({8, "m7", "c7", ""});
  b.round();  // the answer of the read is older
  CHECK(b.keeper.versions().model_version == "m6");
}

TEST_CASE("versions: one question is in flight, and a failed one is asked again") {
  Bench b;
  b.tick();
  const auto job = b.asked->job;
  b.tick();
  CHECK(b.asked->job == job);
  b.answer(Refusal{RefusalKind::unavailable, "away"});
  CHECK_FALSE(b.asked.has_value());
  b.round();
  CHECK(b.keeper.known());
}

TEST_CASE("versions: a model is announced, loaded everywhere and then flipped to, with its catalog") {
  Bench b;
  b.round();
  b.keeper.wish("m2", "c2");
  b.round();
  CHECK(b.value == "m1\nc1\nm2\nc2");
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::pending);
  b.round();
  CHECK(b.value == "m1\nc1\nm2\nc2");
  b.all_load("m2");
  b.round();
  CHECK(b.value == "m2\nc2\n");
  CHECK(b.revision == 3);
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::served);
  b.keeper.end_wish({0});
  CHECK_FALSE(b.keeper.swapping());
}

TEST_CASE("versions: any router that sees the announced model everywhere flips to it and its catalog") {
  for (const char* catalog : {"", "\nc2"}) {
    Bench b;
    b.revision = 3;
    b.value = std::string("m1\nc1\nm2") + catalog;
    b.round();
    CHECK(b.revision == 3);
    b.all_load("m2");
    b.round();
    CHECK(b.value == (*catalog ? "m2\nc2\n" : "m2\nc1\n"));
    CHECK(b.keeper.versions().epoch == 4);
  }
}

TEST_CASE("versions: a wish for what is served is confirmed by a read and writes nothing") {
  Bench b;
  b.round();
  b.keeper.wish("m1", "");
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::pending);
  b.round();
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::served);
  CHECK_FALSE(b.keeper.wish_changes());
  CHECK(b.revision == 1);
  b.keeper.end_wish({0});
  ++b.revision;  // the keeper's versions are outdated
  b.value = "m9\nc1\n";
  b.keeper.wish("m1", "");
  b.round();
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::pending);
  CHECK(b.keeper.wish_changes());
  CHECK(b.value == "m9\nc1\nm1");
}

TEST_CASE("versions: a wish for the active model takes back another router's announcement") {
  Bench b;
  b.revision = 3;
  b.value = "m1\nc1\nm2\nc2";
  b.round();
  b.keeper.wish("m1", "");
  b.round();
  CHECK(b.value == "m1\nc1\n");
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::served);
}

TEST_CASE("versions: a model that a worker can never load is taken back, and the wish gets the reason") {
  Bench b;
  b.round();
  b.keeper.wish("m2", "c2");
  b.round();
  b.refuse_load("m2", b.revision - 1);  // for an earlier announcement
  b.refuse_load("m3", b.revision);
  b.round();
  CHECK(b.value == "m1\nc1\nm2\nc2");
  b.refuse_load("m2", b.revision);
  b.tick();
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::pending);
  b.settle();
  CHECK(b.value == "m1\nc1\n");
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::refused);
  CHECK(b.keeper.why_refused() == "node 2: no file");
  b.round();
  CHECK(b.value == "m1\nc1\n");
  b.keeper.end_wish({0});
  b.keeper.wish("m2", "");  // a new wish starts clean
  b.round();
  CHECK(b.value == "m1\nc1\nm2");
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::pending);
}

TEST_CASE("versions: a model that another router took back is refused with the reason, not replaced") {
  for (const bool is_read : {false, true}) {
    Bench b;
    b.round();
    b.keeper.wish("m2", "");
    b.round();
    if (is_read) b.tick();
    b.refuse_load("m2", b.revision);
    ++b.revision;
    b.value = "m1\nc1\n";
    is_read ? b.settle() : b.hear({b.revision, "m1", "c1", ""});
    CHECK(b.keeper.wish_state() == VersionKeeper::Wish::refused);
    CHECK(b.keeper.why_refused() == "node 2: no file");
    b.round();
    CHECK(b.keeper.wish_state() == VersionKeeper::Wish::refused);
  }
}

TEST_CASE("versions: an announcement without a waiting wish is taken back") {
  Bench b;
  b.revision = 3;
  b.value = "m1\nc1\nm2";
  b.round();
  b.refuse_load("m2", 3);
  b.round();
  CHECK(b.value == "m1\nc1\n");
  b.keeper.wish("m3", "");
  b.round();
  b.keeper.end_wish({0});
  b.round();
  CHECK(b.value == "m1\nc1\n");
  b.value = "m1\nc1\nm4";
  ++b.revision;
  b.round();
  b.round(1'000'000);
  CHECK(b.value == "m1\nc1\nm4");
  b.round(1'000'001);
  CHECK(b.value == "m1\nc1\n");
}

TEST_CASE("versions: a wish that ends while its announcement is in flight leaves nothing behind") {
  for (const bool answer_is_lost : {false, true}) {
    Bench b;
    b.round();
    b.keeper.wish("m2", "c1");
    b.tick();
    b.keeper.end_wish({0});
    if (answer_is_lost) {
      b.value = std::get<WriteKey>(std::get<Coordinate>(b.asked->work).what).value;
      ++b.revision;
      b.answer(Refusal{RefusalKind::unavailable, "away"});
    }
    b.settle();
    b.round();
    CHECK(b.value == "m1\nc1\n");
    CHECK(b.revision == 3);
    ++b.revision;
    b.value = "m1\nc1\nm2";  // another router's wish
    b.round();
    b.round();
    CHECK(b.value == "m1\nc1\nm2");
  }
}

TEST_CASE("versions: answers to questions from before a wish do not confirm it") {
  for (const bool announced : {false, true}) {
    Bench b;
    b.round();
    if (announced) ++b.revision, b.value = "m1\nc1\nm2";
    b.tick();
    b.keeper.wish(announced ? "m2" : "m1", "");
    b.answer(CoordinationReply{true, b.revision, b.value});
    CHECK(b.keeper.wish_state() == VersionKeeper::Wish::pending);
    ++b.revision;  // another router has changed it since
    b.value = announced ? "m1\nc1\n" : "m9\nc1\n";
    b.round();
    CHECK(b.keeper.wish_state() == VersionKeeper::Wish::pending);
    CHECK(b.value == (announced ? "m1\nc1\nm2" : "m9\nc1\nm1"));
  }
}

TEST_CASE("versions: another router's equal announcement stays after this one's was withdrawn") {
  enum class Fate { taken_back, written, not_written, overtaken, unknown };
  for (const Fate fate :
       {Fate::taken_back, Fate::written, Fate::not_written, Fate::overtaken, Fate::unknown}) {
    CAPTURE(static_cast<int>(fate));
    Bench b;
    b.round();
    b.keeper.wish("m2", "");
    b.tick();
    std::int64_t now = 0;
    const auto other = [&](const char* value) { ++b.revision, b.value = value; };
    if (fate == Fate::taken_back) b.settle(), other("m1\nc1\n"), b.hear({b.revision, "m1", "c1", ""});
    b.keeper.end_wish({0});
    if (fate == Fate::written) b.settle();  // then taken back by this router
    if (fate == Fate::not_written) b.answer(Refusal{RefusalKind::unavailable, "away"}), b.round();
    if (fate == Fate::overtaken)
      b.answer(Refusal{RefusalKind::unavailable, "away"}), other("m1\nc1\n"), b.round();
    if (fate == Fate::unknown) b.answer(Refusal{RefusalKind::unavailable, "away"}), now = 1'000'001;
    other("m1\nc1\nm2");
    const Revision theirs = b.revision;
    b.hear({theirs, "m1", "c1", "m2"});
    for (int i = 0; i < 3; ++i) b.round(now);
    CHECK(b.revision == theirs);
  }
}

TEST_CASE("versions: an answer about an earlier wish's catalog says nothing about the next wish") {
  for (const bool is_there : {false, true}) {
    Bench b;
    b.round();
    b.keeper.wish("", "c2");
    b.tick();
    b.keeper.end_wish({0});
    b.keeper.wish("", "c3");
    b.answer(is_there ? JobResult{Features{}} : JobResult{Refusal{RefusalKind::not_found, "wrong_catalog"}});
    CHECK(b.keeper.wish_state() == VersionKeeper::Wish::pending);
    b.settle();
    CHECK(b.value == "m1\nc1\n");
    b.tick();
    REQUIRE(std::holds_alternative<FindFeatures>(b.asked->work));
    CHECK(std::get<FindFeatures>(b.asked->work).catalog_version == "c3");
    b.settle();
    CHECK(b.value == "m1\nc3\n");
  }
}

TEST_CASE("versions: a catalog alone needs no model, and an unknown catalog is not flipped to") {
  Bench b;
  b.round();
  b.keeper.wish("", "c2");
  b.round();
  CHECK(b.value == "m1\nc2\n");
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::served);
  b.keeper.end_wish({0});
  b.keeper.wish("", "c3");
  b.tick();
  REQUIRE(std::holds_alternative<FindFeatures>(b.asked->work));
  b.answer(Refusal{RefusalKind::not_found, "wrong_catalog"});
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::wrong_catalog);
  b.keeper.end_wish({0});
  b.round();
  CHECK(b.value == "m1\nc2\n");
}

TEST_CASE("versions: a change in between makes the keeper try again; another wish replaces this one") {
  Bench b;
  b.round();
  b.keeper.wish("m2", "");
  ++b.revision;  // another router was faster, with another catalog
  b.value = "m1\nc9\n";
  b.round();
  CHECK(b.value == "m1\nc9\nm2");
  ++b.revision;
  b.value = "m1\nc9\nm3";
  b.round();
  b.round();
  CHECK(b.keeper.wish_state() == VersionKeeper::Wish::replaced);
  CHECK(b.value == "m1\nc9\nm3");
}

TEST_CASE("versions: a rumour is read once per heartbeat, and a lasting one makes the keeper not current") {
  Bench b;
  b.round();
  const auto rumour = [&](std::int64_t us) {
    Effects effects;
    b.keeper.rumour({{us}, b.next_id, effects}, 9, b.workers);
    b.take(effects);
    return std::exchange(b.asked, std::nullopt);
  };
  const auto question = rumour(0);
  REQUIRE(question.has_value());
  Effects effects;
  b.keeper.on_done({{1}, b.next_id, effects}, question->job, Refusal{RefusalKind::unavailable, "away"},
                   b.workers);
  CHECK_FALSE(rumour(2).has_value());
  CHECK(b.keeper.current({600'000}));
  CHECK_FALSE(b.keeper.current({600'001}));
  CHECK(rumour(200'000).has_value());
  b.hear({9, "m6", "c6", ""});
  CHECK(b.keeper.current({700'000}));
}

TEST_CASE("versions: without a Coordination nothing is asked and nothing changes") {
  Bench b;
  VersionKeeper alone({.model_version = "m1"}, false);
  Effects effects;
  alone.tick({{0}, b.next_id, effects}, b.workers);
  alone.hear({0}, {5, "m2", "", ""}, b.workers);
  CHECK(effects.list.empty());
  CHECK(alone.known());
  CHECK(alone.versions().model_version == "m1");
}

}  // namespace versions_test
}  // namespace troupe::router
