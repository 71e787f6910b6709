#include "actors/kv_worker/index_reports.h"

#include "actors/testing/kv_worker_parts.h"

namespace troupe::actors {
namespace index_reports_test {

using namespace kv_worker_test;

TEST_CASE_FIXTURE(PartsBench,
                  "index reports: each step with changes sends one numbered message to every cache-meta") {
  index.report({0}, effects);
  CHECK(sent<CacheChanges>().size() == 2);  // the free pages
  index.report({1}, effects);
  CHECK(sent<CacheChanges>().size() == 2);
  index.note_added(put(item(1)));
  index.note_refused(name(9));
  index.report({2}, effects);
  REQUIRE(sent<CacheChanges>().size() == 4);
  const CacheChanges changes = sent<CacheChanges>()[3];
  CHECK(changes.sequence == 2);
  CHECK(changes.added.at(0).name == name(1));
  CHECK(changes.refused == std::vector<BlockName>{name(9)});
  CHECK(changes.areas.at(0) == AreaCapacity{12, 16});
}

TEST_CASE_FIXTURE(PartsBench,
                  "index reports: a cache-meta that joined later subscribes with its first question") {
  const Address joined{7, Role::cache_meta};
  CHECK_FALSE(index.hear(joined, Forget{}));
  CHECK(index.hear(joined, InventoryRequest{}));
  CHECK(index.hear(joined, Forget{}));
  CHECK_FALSE(index.hear(far, InventoryRequest{}));
  index.report({0}, effects);
  CHECK(sent<CacheChanges>().size() == 3);
  index.lose(7);
  CHECK(index.cache_metas().size() == 2);
}

}  // namespace index_reports_test
}  // namespace troupe::actors
