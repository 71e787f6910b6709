#include "actors/inference/model_assets_port.h"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/testing/catalog_test.h"

namespace troupe::actors {
namespace model_assets_port_test {

struct Named : kernels::CatalogAssets {
  explicit Named(CatalogPointer of) : catalog(std::move(of)) {}
  CatalogPointer catalog;
};

// A store of catalogs, and assets that keep their catalog.
struct Bench {
  std::map<std::string, CatalogPointer> catalogs;
  std::atomic<int> made = 0, asked = 0;
  bool fails = false;
  ModelAssets assets{[this](CatalogPointer catalog) {
                       ++made;
                       if (fails) throw std::runtime_error("no memory");
                       return std::make_shared<const Named>(std::move(catalog));
                     },
                     [this](const std::string& version) {
                       ++asked;
                       const auto at = catalogs.find(version);
                       return at == catalogs.end() ? nullptr : at->second;
                     }};

  void put(const std::string& version) { catalogs[version] = features_of(nullptr, {}, version).catalog; }
  std::string version_of(const AssetsPointer& pointer) {
    return static_cast<const Named&>(*pointer).catalog->version();
  }
};

TEST_CASE("model assets: assets are made once for each version that is here, and none for others") {
  Bench b;
  b.put("c1"), b.put("c2");
  const AssetsPointer one = b.assets.of("c1"), two = b.assets.of("c2");
  CHECK(b.version_of(one) == "c1");
  CHECK(b.version_of(two) == "c2");
  CHECK(b.assets.of("c1") == one);
  CHECK(b.made == 2);
  CHECK(b.assets.of("c3") == nullptr);
  b.put("c3");  // it arrives later
  CHECK(b.version_of(b.assets.of("c3")) == "c3");
}

TEST_CASE("model assets: a version in use outlives its catalog, and recently used versions are kept") {
  Bench b;
  for (int n = 1; n <= 9; ++n) b.put("c" + std::to_string(n));
  const AssetsPointer held = b.assets.of("c1");
  for (int n = 2; n <= 9; ++n) {
    b.assets.of("c" + std::to_string(n));
    b.assets.of("c2");  // wanted all the time
  }
  const int made = b.made;
  b.catalogs.clear();
  CHECK(b.version_of(held) == "c1");
  CHECK(b.assets.of("c1") == nullptr);  // not kept
  CHECK(b.version_of(b.assets.of("c2")) == "c2");
  CHECK(b.version_of(b.assets.of("c9")) == "c9");
  CHECK(b.made == made);
}

TEST_CASE("model assets: an error in making them is thrown, and the next call tries again") {
  Bench b;
  b.put("c1");
  b.fails = true;
  CHECK_THROWS_AS(b.assets.of("c1"), std::runtime_error);
  b.fails = false;
  CHECK(b.version_of(b.assets.of("c1")) == "c1");
}

TEST_CASE("model assets: threads that want one version get the same assets, made once") {
  Bench b;
  b.put("c1");
  std::vector<AssetsPointer> got(8);
  std::vector<std::thread> threads;
  for (AssetsPointer& mine : got) threads.emplace_back([&] { mine = b.assets.of("c1"); });
  for (std::thread& thread : threads) thread.join();
  for (const AssetsPointer& each : got) CHECK(each == got[0]);
  CHECK(b.made == 1);
}

}  // namespace model_assets_port_test
}  // namespace troupe::actors
