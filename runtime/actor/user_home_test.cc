#include "runtime/actor/user_home.h"

#include <doctest/doctest.h>

namespace troupe {
namespace {

TEST_CASE("user home: the owner key has the user's hash, with and without a model's name before it") {
  for (const auto& [tenant, user] :
       {std::pair{"", "ann"}, {"t", "ann"}, {"a/b", "c/d"}, {"1:x", "2:y"}, {"t", ""}}) {
    CHECK(owner_hash(owner_of_user(tenant, user)) == user_hash(tenant, user));
    CHECK(owner_hash("movies/" + owner_of_user(tenant, user)) == user_hash(tenant, user));
  }
  CHECK(owner_of_user("t", "ann") == "1:tann");
}

TEST_CASE("user home: an owner that is no user's key has a hash, too") {
  for (const char* owner :
       {"", "ann", ":", "9:ann", "99999999999999999999999:a", "model/", "model/x", "-1:a"})
    CHECK(owner_hash(owner) != 0);
  CHECK(owner_hash("9:ann") != owner_hash("8:ann"));
}

TEST_CASE("user home: tenant and user names that concatenate to the same text have different hashes") {
  CHECK(user_hash("t", "ann") == user_hash("t", "ann"));
  CHECK(user_hash("t", "ann") != user_hash("ta", "nn"));
}

}  // namespace
}  // namespace troupe
