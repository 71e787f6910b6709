#include "runtime/features/catalogs_in_use.h"

#include <doctest/doctest.h>

#include "runtime/features/stored_catalog.h"

namespace troupe {
namespace {

StoredCatalogPointer version(std::uint64_t number) { return CatalogWriter().publish(number); }

TEST_CASE("held catalogs: a snapshot is found while somebody holds it") {
  CatalogsInUse held;
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

TEST_CASE("held catalogs: unheld ones are forgotten, and the later of two of one version is found") {
  CatalogsInUse held;
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
