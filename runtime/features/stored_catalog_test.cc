#include "runtime/features/stored_catalog.h"

#include <doctest/doctest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "kernels/base/path_index.h"

using namespace troupe;

namespace {

Item item(const std::string& id, Token token = 1, std::size_t tokens = 2) {
  Item made{id, "the " + id, std::vector<Token>(tokens, token), token + 1, {}};
  made.block.bytes[0] = static_cast<std::uint8_t>(token);
  return made;
}
StoredCatalogPointer with(CatalogWriter& writer, const Item& one) {
  writer.put(one, writer.last()->version_number() + 1);
  return writer.publish(writer.last()->version_number() + 1);
}
std::string all(const StoredCatalog& catalog) {
  std::string text;
  for (ItemNumber n = catalog.next(0); n != no_item; n = catalog.next(n + 1)) text += catalog.item(n).id;
  return text;
}

}  // namespace

TEST_CASE("stored catalog: an item is found by id with the version that wrote it") {
  CatalogWriter writer;
  CHECK(writer.last()->find("a") == no_item);
  CHECK(writer.last()->version() == "c0");
  writer.put(item("a", 3), 7), writer.put(item("b", 4, 0), 8);
  CHECK(writer.last()->find("a") == no_item);  // not published
  const auto catalog = writer.publish(9);
  CHECK(catalog->item(catalog->find("a")).copy() == item("a", 3));
  CHECK(catalog->item(catalog->find("b")).copy() == item("b", 4, 0));
  CHECK(catalog->written(catalog->find("a")) == 7);
  CHECK(catalog->version() == "c9");
  CHECK(catalog->size() == 2);
  CHECK(catalog->find("") == no_item);
}

TEST_CASE("stored catalog: a snapshot never changes; an item keeps its number while others change") {
  CatalogWriter writer;
  with(writer, item("a"));
  const auto before = with(writer, item("b", 5));
  writer.erase("a");
  writer.put(item("b", 6), 3);
  writer.put(item("c", 7), 3);
  const auto after = writer.publish(3);
  CHECK(all(*before) == "ab");
  CHECK(all(*after) == "cb");  // c has the former number of a
  CHECK(before->item(before->find("b")).tokens[0] == 5);
  CHECK(after->item(after->find("b")).tokens[0] == 6);
  CHECK(before->find("b") == after->find("b"));
  CHECK(before->find("c") == no_item);
  CHECK(after->find("a") == no_item);
}

TEST_CASE("stored catalog: the last of several changes of one id counts") {
  CatalogWriter writer;
  CHECK_FALSE(writer.erase("a"));
  writer.put(item("a", 1), 1), writer.put(item("a", 2), 2);
  CHECK(writer.size() == 1);
  CHECK(writer.erase("a"));
  CHECK_FALSE(writer.erase("a"));
  CHECK_FALSE(writer.contains("a"));
  writer.put(item("b", 3), 3);
  CHECK(all(*writer.publish(3)) == "b");
  writer.erase("b");
  writer.put(item("c", 4), 4), writer.put(item("b", 5), 4);
  const auto last = writer.publish(4);
  CHECK(last->size() == 2);
  CHECK(last->item(last->find("b")).tokens[0] == 5);
}

TEST_CASE("stored catalog: a write among 100,000 items copies one leaf, and numbers stay dense") {
  CatalogWriter writer;
  for (int n = 0; n < 100'000; ++n) writer.put(item("item " + std::to_string(n), n), 1);
  const auto before = writer.publish(1);
  std::size_t copied = writer.leaves_copied();
  CHECK(copied == 100'000 / 32);
  const auto after = with(writer, item("item 500", 7));
  CHECK(writer.leaves_copied() == copied + 1);
  CHECK(before->item(700).id.data() == after->item(700).id.data());
  for (int n = 0; n < 300'000; ++n) {
    writer.erase("item " + std::to_string(n));
    writer.put(item("item " + std::to_string(n + 100'000), n), 2);
    if (n % 10'000 == 0) writer.publish(2);
  }
  const auto last = writer.publish(3);
  CHECK(last->size() == 100'000);
  CHECK(last->next(100'000) == no_item);
  CHECK(last->find("item 299999") == no_item);
  CHECK(last->item(last->find("item 399999")).identifier == 300'000);
}

TEST_CASE("stored catalog: after random changes every snapshot reads as the catalog was") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  CatalogWriter writer;
  std::map<std::string, Token> now;
  std::vector<std::pair<StoredCatalogPointer, std::map<std::string, Token>>> kept;
  for (int step = 0; step < 300; ++step) {
    for (std::uint64_t n = random() % 20; n > 0; --n) {
      const std::string id = std::to_string(random() % 400);
      if (random() % 3) {
        writer.put(item(id, now[id] = static_cast<Token>(random() % 1'000), random() % 4 + 1), 1);
      } else {
        CHECK(writer.erase(id) == (now.erase(id) == 1));
      }
    }
    kept.emplace_back(writer.publish(1), now);
  }
  for (const auto& [catalog, truth] : kept) {
    REQUIRE(catalog->size() == truth.size());
    std::set<ItemNumber> numbers;
    std::vector<std::string> ids;
    for (int n = 0; n < 400; ++n) ids.push_back(std::to_string(n));
    const std::vector<ItemNumber> together = catalog->find_all(ids);
    REQUIRE(together.size() == ids.size());
    for (std::size_t n = 0; n < ids.size(); ++n) {
      const std::string& id = ids[n];
      const ItemNumber number = catalog->find(id);
      REQUIRE(together[n] == number);
      REQUIRE((number != no_item) == truth.contains(id));
      if (number == no_item) continue;
      numbers.insert(number);
      REQUIRE(catalog->item(number).id == id);
      REQUIRE(catalog->item(number).identifier == truth.at(id) + 1);
    }
    REQUIRE(numbers.size() == truth.size());
    ItemNumber next = 0;
    for (const ItemNumber number : numbers) {
      REQUIRE(catalog->next(next) == number);
      next = number + 1;
    }
    REQUIRE(catalog->next(next) == no_item);
  }
}

TEST_CASE("stored catalog: readers use an old snapshot while the shared index grows") {
  CatalogWriter writer;
  for (int n = 0; n < 20; ++n) writer.put(item(std::to_string(n), n), 1);
  const auto old = writer.publish(1);
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::thread reader([&] {
    while (!stop)
      for (int n = 0; n < 40; ++n) {
        const ItemNumber number = old->find(std::to_string(n));
        wrong += n < 20 ? number == no_item || old->item(number).identifier != n + 1 : number != no_item;
      }
  });
  for (int n = 20; n < 2'000; ++n) with(writer, item(std::to_string(n), n));
  stop = true;
  reader.join();
  CHECK(wrong == 0);
}

TEST_CASE("stored catalog: paths are the items' tokens, and a snapshot's paths never change") {
  CatalogWriter writer;
  with(writer, item("a", 3));
  with(writer, item("b", 5));
  const auto before = with(writer, item("c", 3));
  CHECK_FALSE(before->has_paths());
  const auto paths = before->paths();
  CHECK(before->has_paths());
  CHECK(paths->leaves() == 2);
  const auto shared = paths->items(paths->find(std::vector<Token>{3, 3}));
  CHECK(std::vector(shared.begin(), shared.end()) == std::vector{before->find("a"), before->find("c")});
  writer.erase("b");
  const auto after = writer.publish(4);
  CHECK(before->paths() == paths);
  CHECK(after->paths()->leaves() == 1);
  CHECK(after->paths()->find(std::vector<Token>{5, 5}) == kernels::PathIndex::none);
}

TEST_CASE("stored catalog: a write that changes no tokens shares the paths") {
  CatalogWriter writer;
  with(writer, item("a", 3));
  const auto before = with(writer, item("b", 5));
  Item renamed = item("b", 5);
  renamed.title = "another";
  const auto same = with(writer, renamed);
  CHECK(same->paths() == before->paths());
  const auto put = with(writer, item("c", 5));
  CHECK(put->paths() != same->paths());
  const auto changed = with(writer, item("c", 6));
  CHECK(changed->paths()->find(std::vector<Token>{6, 6}) != kernels::PathIndex::none);
  CHECK(put->paths()->find(std::vector<Token>{6, 6}) == kernels::PathIndex::none);
}
