#include "runtime/actor/request_options.h"

#include <doctest/doctest.h>

using namespace troupe;

TEST_CASE("request options: each option is read from the word that is written for it") {
  for (const Freshness freshness :
       {Freshness::configured, Freshness::exact, Freshness::wait, Freshness::behind}) {
    Freshness read = freshness == Freshness::exact ? Freshness::wait : Freshness::exact;
    CHECK(!read_word(word_of(freshness), read));
    CHECK(read == freshness);
  }
  CHECK(word_of(Freshness::behind) == "behind");
  for (const UnknownUser user : {UnknownUser::configured, UnknownUser::refuse, UnknownUser::cold}) {
    UnknownUser read = user == UnknownUser::cold ? UnknownUser::refuse : UnknownUser::cold;
    CHECK(!read_word(word_of(user), read));
    CHECK(read == user);
  }
  CHECK(word_of(UnknownUser::cold) == "cold");
  UnknownCandidates unknown = UnknownCandidates::skip;
  CHECK(!read_word("", unknown));
  CHECK(unknown == UnknownCandidates::refuse);
  CHECK(!read_word(word_of(UnknownCandidates::skip), unknown));
  CHECK(unknown == UnknownCandidates::skip);
  CHECK(!read_word("refuse", unknown));
  CHECK(unknown == UnknownCandidates::refuse);
  for (const Normalised normalised : {Normalised::by_model, Normalised::vocabulary, Normalised::allowed}) {
    Normalised read = normalised == Normalised::allowed ? Normalised::vocabulary : Normalised::allowed;
    CHECK(!read_word(word_of(normalised), read));
    CHECK(read == normalised);
  }
  CHECK(word_of(Normalised::allowed) == "allowed");
}

TEST_CASE("request options: an unknown word is refused with the field and the known words") {
  Freshness freshness = Freshness::wait;
  CHECK(read_word("new", freshness) ==
        Refusal{RefusalKind::malformed, "unknown_freshness", "features is \"new\"", "features",
                "exact, wait or behind; \"\" is as configured (features.freshness)"});
  CHECK(freshness == Freshness::wait);
  UnknownCandidates unknown = UnknownCandidates::skip;
  CHECK(read_word("drop", unknown) ==
        Refusal{RefusalKind::malformed, "bad_unknown", "unknown is \"drop\"", "unknown",
                "refuse or skip: how to treat candidates that are not in the catalog"});
  CHECK(unknown == UnknownCandidates::skip);
  UnknownUser user = UnknownUser::cold;
  CHECK(read_word("new", user) ==
        Refusal{RefusalKind::malformed, "bad_unknown_user", "unknown_user is \"new\"", "unknown_user",
                "refuse or cold: how to treat a user that is not stored; \"\" is as configured "
                "(router.unknown_user)"});
  CHECK(user == UnknownUser::cold);
  Normalised normalised = Normalised::allowed;
  CHECK(read_word("all", normalised) == Refusal{RefusalKind::malformed, "unknown_normalisation",
                                                "normalised is \"all\"", "normalised",
                                                "vocabulary or allowed; \"\" is as the model's form says"});
  CHECK(normalised == Normalised::allowed);
}

TEST_CASE("request options: of a long unknown word a refusal quotes the beginning, in whole characters") {
  Freshness freshness = Freshness::configured;
  const auto refusal = read_word(std::string(99, 'x') + "é" + std::string(9'000, 'y'), freshness);
  REQUIRE(refusal);
  CHECK(refusal->what == "features is \"" + std::string(99, 'x') + "…\"");
}
