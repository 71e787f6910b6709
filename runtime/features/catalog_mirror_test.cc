#include "runtime/features/catalog_mirror.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

using namespace troupe;

namespace {

CatalogChange put(const std::string& id, std::uint64_t version) {
  return {id, version, Item{.id = id, .identifier = static_cast<Token>(version)}};
}
CatalogChange gone(const std::string& id, std::uint64_t version) { return {id, version, std::nullopt}; }
CatalogPosition at(std::uint64_t version) { return {"run", "origin", version}; }

std::string text_of(const StoredCatalog& catalog, const std::vector<std::string>& ids) {
  std::string text;
  for (const std::string& id : ids) {
    const ItemNumber item = catalog.find(id);
    text += id + (item != no_item ? std::to_string(catalog.written(item)) : "-") + " ";
  }
  return text;
}
// Returns text such as "a3 b- ": a as version 3 wrote it, no b; "?": position unknown.
std::string seen(const CatalogMirror& mirror, const CatalogPosition& position,
                 const std::vector<std::string>& ids) {
  const auto catalog = mirror.at(position);
  return catalog ? text_of(*catalog, ids) : "?";
}

struct Filled {
  CatalogMirror mirror{100, 8};
  Filled() { mirror.replace(at(2), std::vector{put("a", 1), put("b", 2)}); }
};

}  // namespace

TEST_CASE_FIXTURE(Filled, "catalog mirror: earlier positions read as they were while remembered") {
  mirror.advance(at(2), 3, std::vector{put("a", 3)});
  mirror.advance(at(3), 5, std::vector{gone("b", 4), put("c", 5)});
  CHECK(seen(mirror, at(5), {"a", "b", "c"}) == "a3 b- c5 ");
  CHECK(seen(mirror, at(3), {"a", "b", "c"}) == "a3 b2 c- ");
  CHECK(seen(mirror, at(2), {"a", "b", "c"}) == "a1 b2 c- ");
  CHECK(seen(mirror, at(0), {"a"}) == "a- ");
  for (std::uint64_t v = 6; v < 9; ++v) mirror.advance(at(v - 1), v, std::vector{put("a", v)});
  CHECK(seen(mirror, at(2), {"a"}) == "?");
  CHECK(seen(mirror, at(5), {"a"}) == "a3 ");
}

TEST_CASE_FIXTURE(Filled, "catalog mirror: a position that the mirror did not pass through is unknown") {
  mirror.advance(at(2), 5, std::vector{put("b", 4), put("a", 5)});
  CHECK(seen(mirror, at(4), {"a", "b"}) == "?");
  CHECK(seen(mirror, at(1), {"a"}) == "?");
  CHECK(seen(mirror, at(6), {"a"}) == "?");
  CHECK(seen(mirror, {"other", "origin", 2}, {"a"}) == "?");
  CHECK(seen(mirror, {"run", "other", 5}, {"a"}) == "?");
}

TEST_CASE_FIXTURE(Filled,
                  "catalog mirror: positions are known up to the first version missing from the changes") {
  mirror.advance(at(2), 5, std::vector{put("a", 3), gone("b", 4), put("c", 5)});
  CHECK(seen(mirror, at(3), {"a", "b", "c"}) == "a3 b2 c- ");
  CHECK(seen(mirror, at(4), {"a", "b", "c"}) == "a3 b- c- ");
  mirror.advance(at(3), 9,
                 // 5 was of c, 7 of an unknown id
                 std::vector{gone("b", 4), put("c", 6), put("d", 8), put("a", 9)});
  CHECK(seen(mirror, at(6), {"a", "b", "c", "d"}) == "a3 b- c6 d- ");
  for (const std::uint64_t hidden : {7, 8}) CHECK(seen(mirror, at(hidden), {"a"}) == "?");
  CHECK(seen(mirror, at(9), {"a", "b", "c", "d"}) == "a9 b- c6 d8 ");
  CHECK(mirror.named("c6") == mirror.at(at(6)));
  CHECK(mirror.named("c9") == mirror.present());
  CHECK(mirror.named("c0")->size() == 0);
  for (const char* unknown : {"c7", "c10", "", "6"}) CHECK_FALSE(mirror.named(unknown));
}

TEST_CASE("catalog mirror: only recent positions keep paths, unless a later one shares them") {
  CatalogMirror mirror(100, 100);
  mirror.replace(at(2), std::vector{put("a", 1)});
  std::vector<StoredCatalogPointer> stood;
  std::uint64_t version = 2;
  const auto step = [&](Item item) {
    stood.push_back(mirror.present());
    stood.back()->paths();
    ++version;
    mirror.advance(at(version - 1), version, std::vector{CatalogChange{item.id, version, std::move(item)}});
  };
  const auto having = [&] {
    std::string text;
    for (const auto& catalog : stood) text += catalog->has_paths() ? "p" : "-";
    return text;
  };
  for (Token token = 1; token < 4; ++token) step({.id = "a", .tokens = {token}});
  CHECK(having() == "ppp");
  for (const char* title : {"s", "t", "u"}) step({.id = "a", .title = title, .tokens = {3}});
  CHECK(having() == "--pppp");
  const std::uint64_t last = version;
  for (Token token = 4; token < 7; ++token) step({.id = "a", .tokens = {token}});
  CHECK(having() == "---pppppp");  // changes of titles share one
  step({.id = "a", .tokens = {7}});
  CHECK(having() == "---ppppppp");
  for (Token token = 8; token < 10; ++token) step({.id = "a", .tokens = {token}});
  CHECK(having() == "--------pppp");
  CHECK(mirror.at(at(last))->paths() != nullptr);
}

TEST_CASE_FIXTURE(Filled, "catalog mirror: changes already applied are not applied twice") {
  mirror.advance(at(2), 4, std::vector{put("a", 3), put("b", 4)});
  mirror.advance(at(2), 3, std::vector{put("a", 3)});  // late
  CHECK(mirror.position() == at(4));
  mirror.advance(at(2), 5, std::vector{put("a", 3), put("b", 4), put("c", 5)});
  CHECK(seen(mirror, at(5), {"a", "b", "c"}) == "a3 b4 c5 ");
  CHECK(seen(mirror, at(4), {"a", "b", "c"}) == "a3 b4 c- ");
}

TEST_CASE_FIXTURE(
    Filled,
    "catalog mirror: a gap, another lineage or an older catalog change nothing; a new lineage replaces all") {
  mirror.advance(at(4), 5, std::vector{put("a", 5)});
  mirror.advance({"other", "origin", 2}, 3, std::vector{put("a", 3)});
  mirror.replace(at(1), std::vector{put("a", 1)});
  CHECK(mirror.position() == at(2));
  CHECK(seen(mirror, at(2), {"a", "b"}) == "a1 b2 ");
  mirror.replace({"next", "origin", 1}, std::vector{put("z", 1)});
  CHECK(mirror.items() == 1);
  CHECK(seen(mirror, {"next", "origin", 1}, {"a", "z"}) == "a- z1 ");
  CHECK(seen(mirror, at(2), {"a"}) == "?");
}

TEST_CASE_FIXTURE(
    Filled, "catalog mirror: branch reads changes on top of a known position and does not move the mirror") {
  mirror.advance(at(2), 5, std::vector{put("b", 4), put("n", 5)});
  const auto branch = mirror.branch(at(2), 4, std::vector{put("m", 3), put("b", 4)});
  REQUIRE(branch);
  CHECK(text_of(*branch, {"a", "b", "m", "n"}) == "a1 b4 m3 n- ");
  CHECK(branch->version() == "c4");
  CHECK(seen(mirror, at(5), {"a", "b", "m", "n"}) == "a1 b4 m- n5 ");
  CHECK(seen(mirror, at(4), {"a"}) == "?");
  CHECK_FALSE(mirror.branch(at(1), 4, {}));
}

TEST_CASE_FIXTURE(Filled, "catalog mirror: an item keeps its number when the whole catalog is replaced") {
  const ItemNumber a = mirror.present()->find("a"), b = mirror.present()->find("b");
  mirror.replace({"next", "origin", 9}, std::vector{put("z", 7), put("b", 8)});
  CHECK(mirror.present()->find("b") == b);
  CHECK(mirror.present()->find("z") == a);  // the former item is gone
  CHECK(mirror.present()->find("a") == no_item);
}

TEST_CASE("catalog mirror: items beyond the bound are left out and counted; changes to others apply") {
  CatalogMirror mirror(2, 8);
  mirror.replace(at(3), std::vector{put("a", 1), put("b", 2), put("c", 3)});
  CHECK(mirror.items() == 2);
  CHECK(mirror.left_out() == 1);
  mirror.advance(at(3), 4, std::vector{put("a", 4)});
  CHECK(seen(mirror, at(4), {"a", "b", "c"}) == "a4 b2 c- ");
}

TEST_CASE("catalog mirror: after random steps every known position reads as it was") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  CatalogMirror mirror(100, 64);
  const std::vector<std::string> ids{"a", "b", "c", "d"};
  std::map<std::string, CatalogChange> now;  // the store's content
  std::map<std::uint64_t, std::string> truth;
  std::uint64_t version = 0;
  const auto text = [&] {
    std::string all;
    for (const auto& id : ids)
      all += id + (now.contains(id) && now[id].item ? std::to_string(now[id].version) : "-") + " ";
    return all;
  };
  mirror.replace(at(++version), std::vector{now["a"] = put("a", version)});
  truth[version] = text();
  std::size_t known = 0;
  for (int step = 0; step < 500; ++step) {
    const std::uint64_t from = version - random() % std::min<std::uint64_t>(version, 3);
    for (std::uint64_t n = random() % 4; n > 0; --n) {
      const std::string& id = ids[random() % ids.size()];
      ++version;
      now[id] = random() % 3 ? put(id, version) : gone(id, version);
      truth[version] = text();
    }
    std::map<std::uint64_t, CatalogChange> changes;  // each id at its last change
    for (const auto& [id, change] : now)
      if (change.version > from) changes[change.version] = change;
    std::vector<CatalogChange> in_order;
    for (const auto& [at_version, change] : changes) in_order.push_back(change);
    mirror.advance(at(from), version, in_order);
    for (const auto& [at_version, expected] : truth)
      if (const std::string found = seen(mirror, at(at_version), ids); found != "?") {
        ++known;
        REQUIRE(found == expected);
      }
  }
  CHECK(known > 1000);
}
