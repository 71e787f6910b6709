#include "runtime/features/made_for.h"

#include <doctest/doctest.h>

namespace troupe {
namespace {

const MadeFor ours{"m1", "v1", "p1"};

TEST_CASE("made for: the text round-trips, and other texts are rejected") {
  CHECK(decode_made_for(encode(ours)) == ours);
  const MadeFor nameless{"m1", "", "p1"};
  CHECK(decode_made_for(encode(nameless)) == nameless);
  for (const char* other :
       {"", "troupe rows for ", "model=m vocabulary=v prompt=p",
        "troupe rows for model= vocabulary=v prompt=p", "troupe rows for model=m vocabulary=v"})
    CHECK_FALSE(decode_made_for(other));
}

TEST_CASE("made for: a difference in vocabulary, model or prompt form is named") {
  CHECK(find_difference(ours, ours, false).empty());
  CHECK(find_difference(ours, {"m1", "v2", "p1"}, true) == "vocabulary");
  CHECK(find_difference(ours, {"m2", "v1", "p1"}, false) == "model");
  CHECK(find_difference(ours, {"m1", "v1", "p2"}, true) == "prompt form");
}

TEST_CASE("made for: versions of one model share rows if the model has token names") {
  CHECK(find_difference(ours, {"m2", "v1", "p1"}, true).empty());
  CHECK(find_difference({"m1", "", "p1"}, {"m2", "", "p1"}, true) == "model");
}

}  // namespace
}  // namespace troupe
