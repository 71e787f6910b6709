#include "deploy/data/version.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

using namespace troupe::deploy;

TEST_SUITE("version") {
  TEST_CASE("version: the program knows its version and commit") {
    CHECK(version().size() >= 5);
    CHECK(std::count(version().begin(), version().end(), '.') == 2);
    REQUIRE_FALSE(commit().empty());
    if (!std::filesystem::exists(std::filesystem::path(TROUPE_ROOT_DIR) / ".git"))
      CHECK(commit() == "unknown");
    CHECK(commit().find_first_of(" \n\"@") == std::string_view::npos);
  }
}
