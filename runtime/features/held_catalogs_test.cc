#include "runtime/features/held_catalogs.h"

#include <doctest/doctest.h>

#include "runtime/features/stored_catalog.h"

namespace troupe {
namespace {

StoredCatalogPointer version(std::uint64_t number) { return CatalogWriter().publish(number); }

TEST_CASE("a snapshot is found as long as somebody holds it, and no longer") {
  HeldCatalogs held;
  StoredCatalogPointer first = version(1), second = version(2);
  held.note(first);
  held.note(second);
  CHECK(held.find("c1") == first);
  CHECK(held.find("c2") == second);
  CHECK(held.find("c3") == nullptr);
  first.reset();
  CHECK(held.find("c1") == nullptr);
  CHECK(held.find("c2") == second);
}

TEST_CASE("what nobody holds is forgotten, and of two of one version the later one is found") {
  HeldCatalogs held;
  for (std::uint64_t n = 1; n <= 100; ++n) held.note(version(n));
  CHECK(held.noted() == 1);
  const StoredCatalogPointer before = version(7), after = version(7);
  held.note(before);
  held.note(after);
  held.note(after);
  CHECK(held.find("c7") == after);
}

}  // namespace
}  // namespace troupe
