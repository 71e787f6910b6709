#include "sim/world/pages.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::sim;

namespace {

const Provenance somewhere{1, 2, 3};

Pages three_pages() {
  Pages pages(5, 4);
  for (std::uint32_t id = 0; id < 3; ++id) pages.write(id, fingerprint({{7, 8}}, id, 12, 4), somewhere);
  return pages;
}

}  // namespace

TEST_CASE("sim pages: the checksum depends on every bit, the order and the number of pages only") {
  Pages pages = three_pages();
  const std::vector<std::uint32_t> ids{0, 1, 2};
  const std::uint64_t sum = pages.checksum(ids);
  for (std::uint64_t bit = 0; bit < 64 * layers; ++bit) {
    pages.flip(1, bit);
    CHECK(pages.checksum(ids) != sum);
    pages.flip(1, bit);
  }
  CHECK(pages.checksum(std::vector<std::uint32_t>{0, 2, 1}) != sum);
  CHECK(pages.checksum(std::vector<std::uint32_t>{0, 1}) != sum);
  for (const std::uint32_t id : ids) pages.copy(id + 2, pages.at(id));
  Pages elsewhere(3, 4);
  for (std::uint32_t id = 0; id < 3; ++id) elsewhere.write(id, fingerprint({{7, 8}}, id, 12, 4), {});
  CHECK(elsewhere.checksum(ids) == sum);
}

TEST_CASE("sim pages: a write is detected even with the same content; a flipped bit is not a write") {
  Pages pages = three_pages();
  const std::vector<std::uint32_t> ids{0, 1};
  const std::vector<Page> before = pages.read(ids);
  CHECK_FALSE(pages.rewritten(ids, before));
  pages.flip(0, 5);
  CHECK_FALSE(pages.rewritten(ids, before));
  pages.flip(0, 5);
  for (const std::uint32_t id : ids) {
    const std::vector<Page> since = pages.read(ids);
    pages.copy(id, pages.at(id));
    CHECK(pages.rewritten(ids, since));
  }
}

TEST_CASE("sim pages: a copy keeps the provenance of its content and whether it came late") {
  Pages pages = three_pages();
  pages.copy(4, pages.at(1), true);
  CHECK(pages.at(4).from == somewhere);
  CHECK(pages.at(4).late);
  pages.copy(4, pages.at(4));
  CHECK_FALSE(pages.at(4).late);
}

TEST_CASE("sim pages: hold() checks the number of tokens and that ids are in the arena") {
  const Pages pages(5, 4);
  CHECK(pages.hold(std::vector<std::uint32_t>{0, 4}, 8));
  CHECK(pages.hold(std::vector<std::uint32_t>{0, 4}, 5));
  CHECK_FALSE(pages.hold(std::vector<std::uint32_t>{0, 4}, 9));
  CHECK_FALSE(pages.hold(std::vector<std::uint32_t>{0, 4}, 4));
  CHECK_FALSE(pages.hold(std::vector<std::uint32_t>{0, 5}, 8));
}

TEST_CASE("sim pages: marks distinguish the tenants of user blocks, and public blocks from them") {
  CHECK(tenant_mark(SegmentKind::item, "i1") == 0);
  CHECK(tenant_mark(SegmentKind::user, "1:au1") == tenant_mark(SegmentKind::user, "1:au2"));
  CHECK(tenant_mark(SegmentKind::user, "1:au1") != tenant_mark(SegmentKind::user, "1:bu1"));
  CHECK(tenant_mark(SegmentKind::user, "1:au1") != tenant_mark(SegmentKind::user, "2:au1"));
  CHECK(tenant_mark(SegmentKind::user, "0:u1") != 0);
}

TEST_CASE("page registry: dead processes are forgotten") {
  Pages pages(1, 4);
  PageRegistry registry;
  CHECK(registry.find(3) == nullptr);
  registry.put(3, 2, &pages);
  CHECK(registry.find(3)->incarnation == 2);
  registry.remove(3);
  CHECK(registry.find(3) == nullptr);
}
