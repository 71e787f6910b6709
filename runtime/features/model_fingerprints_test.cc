#include "runtime/features/model_fingerprints.h"

#include <doctest/doctest.h>

namespace troupe {
namespace {

const ModelFingerprints ours{"m1", "v1", "p1"};

TEST_CASE("made for: the text round-trips, and other texts are rejected") {
  CHECK(decode_model_fingerprints(encode(ours)) == ours);
  const ModelFingerprints nameless{"m1", "", "p1"};
  CHECK(decode_model_fingerprints(encode(nameless)) == nameless);
  for (const char* other :
       {"", "troupe rows for ", "model=m vocabulary=v prompt=p",
        "troupe rows for model= vocabulary=v prompt=p", "troupe rows for model=m vocabulary=v"})
    CHECK_FALSE(decode_model_fingerprints(other));
}

TEST_CASE("made for: a difference in vocabulary, model or prompt form is named") {
  CHECK(changed_fingerprint(ours, ours, false).empty());
  CHECK(changed_fingerprint(ours, {"m1", "v2", "p1"}, true) == "vocabulary");
  CHECK(changed_fingerprint(ours, {"m2", "v1", "p1"}, false) == "model");
  CHECK(changed_fingerprint(ours, {"m1", "v1", "p2"}, true) == "prompt form");
}

TEST_CASE("made for: versions of one model share rows if the model has token names") {
  CHECK(changed_fingerprint(ours, {"m2", "v1", "p1"}, true).empty());
  CHECK(changed_fingerprint({"m1", "", "p1"}, {"m2", "", "p1"}, true) == "model");
}

}  // namespace
}  // namespace troupe
