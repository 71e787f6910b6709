#include "runtime/store/store_mark.h"

#include <doctest/doctest.h>

#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using State = AcknowledgedMark::State;

namespace {

struct Marked {
  TestFolder folder;
  std::filesystem::path file = folder.path() / "acknowledged";
  void write(int profiles) {
    AcknowledgedMark mark(file, {});
    for (int i = 1; i <= profiles; ++i) {
      REQUIRE_FALSE(mark.reserve(VersionKind::profiles, static_cast<std::uint64_t>(i)));
      mark.acknowledge(VersionKind::profiles, static_cast<std::uint64_t>(i));
    }
  }
};

}  // namespace

TEST_CASE_FIXTURE(Marked, "store mark: last number and ceiling are read back") {
  write(7);
  const auto found = AcknowledgedMark::read_file(file);
  REQUIRE(found.state);
  CHECK(found.damage.empty());
  CHECK(found.state->last == std::array<std::uint64_t, 2>{7, 0});
  CHECK(found.state->ceiling[0] >= 7);
  CHECK(found.state->ceiling[1] == 0);
}

TEST_CASE_FIXTURE(
    Marked, "store mark: with one slot lost the other is at most a write behind, and the loss is reported") {
  for (const std::size_t at : {std::size_t{20}, std::size_t{512 + 20}}) {
    write(7);
    flip_byte(file, at);
    const auto found = AcknowledgedMark::read_file(file);
    REQUIRE(found.state);
    CHECK(found.state->last[0] >= 6);
    CHECK(found.damage == "one of its two slots is damaged");
  }
}

TEST_CASE_FIXTURE(Marked, "store mark: a missing or malformed file is reported") {
  CHECK(AcknowledgedMark::read_file(file).damage == "it is missing");
  folder.write("acknowledged", std::string(2000, 'x'));
  const auto found = AcknowledgedMark::read_file(file);
  CHECK_FALSE(found.state);
  CHECK(found.damage == "neither of its two slots is sound");
}

TEST_CASE_FIXTURE(Marked, "store mark: a reopened mark holds the given state, whatever was there") {
  write(50);
  { AcknowledgedMark mark(file, {{100, 3}, {200, 30}}); }
  CHECK(AcknowledgedMark::read_file(file).state == State{{100, 3}, {200, 30}});
}
