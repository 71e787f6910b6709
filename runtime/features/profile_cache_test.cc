#include "runtime/features/profile_cache.h"

#include <doctest/doctest.h>

using namespace troupe;

namespace {

ProfileCache::CachedProfile read_at(std::uint64_t catalog, std::uint64_t version) {
  return {std::make_shared<Profile>(Profile{version, {1, 2}, {2}}), {"run", "origin", catalog}};
}
std::uint64_t version_of(ProfileCache& cache, const std::string& key) {
  const auto known = cache.find(key);
  return known ? known->profile->version : 0;
}

}  // namespace

TEST_CASE("profile cache: a profile is found with its position; a late, older reading is dropped") {
  ProfileCache cache(1 << 20);
  cache.put("ann", read_at(5, 7));
  CHECK(cache.find("ann")->at == CatalogPosition{"run", "origin", 5});
  CHECK(*cache.find("ann")->profile == Profile{7, {1, 2}, {2}});
  cache.put("ann", read_at(4, 7)), cache.put("ann", read_at(6, 6));
  CHECK(cache.find("ann")->at.version == 5);
  cache.put("ann", read_at(6, 7));
  CHECK(cache.find("ann")->at.version == 6);
  cache.put("ann", {std::make_shared<Profile>(Profile{1, {}, {}}),
                    {"next run", "origin", 1}});  // the store lost its last writes
  CHECK(version_of(cache, "ann") == 1);
}

TEST_CASE("profile cache: a written user stays unknown, however late an older reading arrives") {
  ProfileCache cache(1 << 20);
  cache.put("ann", read_at(5, 7));
  cache.forget("ann", 8);
  CHECK_FALSE(cache.find("ann"));
  cache.put("ann", read_at(5, 7));
  CHECK_FALSE(cache.find("ann"));
  cache.put("ann", read_at(5, 8));
  CHECK(version_of(cache, "ann") == 8);
  cache.erase("ann");
  CHECK_FALSE(cache.find("ann"));
}

TEST_CASE("profile cache: the least recently used are evicted, and a too large one is not kept") {
  ProfileCache cache(2'000);  // space for three small ones
  for (const char* user : {"a", "b", "c"}) cache.put(user, read_at(1, 1));
  CHECK(cache.find("a"));
  cache.put("d", read_at(1, 1));
  CHECK_FALSE(cache.find("b"));
  CHECK(cache.find("a"));
  CHECK(cache.find("c"));
  CHECK(cache.find("d"));
  const Profile large{1, std::vector<Token>(1'000), {1'000}};
  cache.put("large", {std::make_shared<Profile>(large), {"run", "origin", 1}});
  CHECK_FALSE(cache.find("large"));
  CHECK(cache.find("d"));
}

TEST_CASE("profile cache: a reading during which any user was erased is not kept") {
  ProfileCache cache(1 << 20);
  const std::uint64_t before = cache.changes();
  cache.put_unless_changed("ann", read_at(0, 1), before);
  CHECK(version_of(cache, "ann") == 1);
  cache.erase("ann");
  cache.put_unless_changed("ann", read_at(0, 1), before);
  CHECK_FALSE(cache.find("ann"));
  cache.put_unless_changed("ann", read_at(0, 2), cache.changes());
  CHECK(version_of(cache, "ann") == 2);
}
