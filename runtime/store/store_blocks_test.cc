#include "runtime/store/store_blocks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

#include "runtime/testing/store_test_folder.h"

using namespace troupe;

namespace {

constexpr std::size_t page_bytes = 8192;
constexpr std::uint64_t plenty = 1 << 30;
const NameContext model{"model", "layout"};

BlockName named(std::uint8_t n) {
  BlockName name;
  name.bytes[0] = n;
  return name;
}

struct Tier {
  TestFolder folder;
  PageArena arena{page_bytes, 8};
  std::unique_ptr<Store> store;
  std::unique_ptr<BlockStorePort> port;

  explicit Tier(const char* disk_size = nullptr) : folder(disk_size) { open(); }
  void open(const NameContext& context = model, std::uint64_t bytes_max = plenty,
            std::uint64_t free_min = 0) {
    close();
    store =
        std::make_unique<Store>(folder.path(), StoreOptions{.free_bytes_min = free_min, .is_cache = true});
    port = std::make_unique<BlockStorePort>(*store, arena, context, bytes_max);
  }
  void close() { port.reset(), store.reset(); }

  void fill(std::vector<std::uint32_t> pages, std::uint8_t with) {
    for (const std::uint32_t page : pages) std::memset(arena.page(page), with, page_bytes);
  }
  SaveBlock block(std::uint8_t n, std::vector<std::uint32_t> pages) {
    return {{named(n), SegmentKind::item, "owner", 30u + n, checksum_pages(arena, pages)}, std::move(pages)};
  }
  BlockSaveResult save(std::uint8_t n, std::vector<std::uint32_t> pages) {
    return std::get<BlockSaveResult>(port->run(block(n, std::move(pages)), 0));
  }
  std::uint64_t put(std::uint8_t n, std::vector<std::uint32_t> pages) {  // returns the checksum
    fill(pages, n);
    REQUIRE(save(n, pages).ok);
    return checksum_pages(arena, pages);
  }
  LoadBlocks::One one(std::uint8_t n, std::vector<std::uint32_t> pages, std::uint64_t checksum) {
    return {named(n), std::move(pages), 30u + n, checksum};
  }
  bool load(const LoadBlocks::One& what) { return find(what) == BlockLoad::sound; }
  BlockLoad find(const LoadBlocks::One& what) {
    return std::get<BlockLoadResult>(port->run(LoadBlocks{{what}}, 0)).found.at(0);
  }
  std::vector<StoredBlock> list() { return std::get<StoredList>(port->run(ListStored{}, 0)).blocks; }
  bool holds(std::uint32_t page, std::uint8_t value) {
    const std::byte* bytes = arena.page(page);
    return std::all_of(bytes, bytes + page_bytes, [&](std::byte b) { return b == std::byte{value}; });
  }
  // Returns key and value of the n-th entry of the blocks column: first the bytes of all blocks,
  // then their headers in the same order.
  std::pair<std::string, std::string> entry(int n) {
    std::pair<std::string, std::string> found;
    store->scan(Column::blocks, "", "", [&](std::string_view key, std::string_view value) {
      found = std::pair<std::string, std::string>(key, value);
      return n-- > 0;
    });
    return found;
  }
  void put_raw(const std::string& key, const std::string& value) {
    const Change change{Column::blocks, key, value};
    REQUIRE_FALSE(store->write({&change, 1}, Durability::buffered));
  }
};

}  // namespace

TEST_CASE_FIXTURE(Tier,
                  "block store: a saved block is listed and loaded into other pages, also after a restart") {
  fill({0}, 1), fill({5}, 2);
  REQUIRE(save(1, {0, 5}).ok);
  const std::uint64_t checksum = checksum_pages(arena, std::vector<std::uint32_t>{0, 5});
  for (const bool restarted : {false, true}) {
    CAPTURE(restarted);
    if (restarted) open();
    const auto listed = list();
    REQUIRE(listed.size() == 1);
    CHECK(listed[0].name == named(1));
    CHECK(listed[0].kind == SegmentKind::item);
    CHECK(listed[0].owner == "owner");
    CHECK(listed[0].tokens == 31);
    CHECK(listed[0].checksum == checksum);
    fill({2, 3}, 99);
    CHECK(load(one(1, {3, 2}, checksum)));
    CHECK(holds(3, 1));
    CHECK(holds(2, 2));
    CHECK(port->stored_bytes() == 2 * page_bytes);
  }
  CHECK(port->quarantined() == 0);
}

TEST_CASE_FIXTURE(Tier, "block store: blocks are listed in order of name, without erased ones") {
  put(3, {0}), put(1, {1}), put(2, {2});
  const auto names = [&] {
    std::vector<BlockName> found;
    for (const StoredBlock& block : list()) found.push_back(block.name);
    return found;
  };
  CHECK(names() == std::vector{named(1), named(2), named(3)});
  CHECK(std::holds_alternative<BlockEraseResult>(port->run(EraseBlocks{{named(1), named(3), named(9)}}, 0)));
  CHECK(names() == std::vector{named(2)});
  CHECK(port->stored_bytes() == page_bytes);
}

TEST_CASE_FIXTURE(Tier, "block store: loading several blocks reports absent ones as misses") {
  const std::uint64_t first = put(1, {0}), second = put(2, {1});
  const LoadBlocks wanted{{one(1, {4}, first), one(7, {5}, first), one(2, {6}, second)}};
  CHECK(std::get<BlockLoadResult>(port->run(wanted, 0)).found ==
        std::vector{BlockLoad::sound, BlockLoad::gone, BlockLoad::sound});
  CHECK(holds(4, 1));
  CHECK(holds(6, 2));
  CHECK(port->quarantined() == 0);
}

TEST_CASE_FIXTURE(Tier, "block store: a block unlike the requested one is a miss, but stays") {
  const std::uint64_t sum = put(1, {0});
  auto other_tokens = one(1, {4}, sum);
  other_tokens.tokens = 12;
  CHECK(find(other_tokens) == BlockLoad::gone);
  CHECK(find(one(1, {4}, sum + 1)) == BlockLoad::gone);
  CHECK(find(one(1, {4, 5}, sum)) == BlockLoad::gone);
  CHECK(load(one(1, {4}, sum)));
  CHECK(port->quarantined() == 0);
}

TEST_CASE_FIXTURE(
    Tier, "block store: a flipped, cut, lengthened, swapped or lost value is a miss, erased and counted") {
  const std::uint64_t sum = put(1, {0});
  const std::uint64_t other_sum = put(2, {1});
  const auto [bytes_key, bytes] = entry(0);
  const auto [header_key, header] = entry(2);
  REQUIRE(bytes.size() == page_bytes);
  std::string flipped = bytes, flipped_header = header;
  flipped[page_bytes - 1] ^= 1;
  flipped_header[header.size() / 2] ^= 1;
  const std::pair<std::string, std::string> damage[] = {
      {bytes_key, flipped},
      {bytes_key, bytes.substr(1)},
      {bytes_key, bytes + "x"},
      {bytes_key, ""},
      {bytes_key, entry(1).second},
      {header_key, flipped_header},
      {header_key, header.substr(0, 5)},
      {header_key, entry(3).second},
      {header_key, ""},
  };
  std::uint64_t quarantined = 0;
  for (const auto& [key, value] : damage) {
    CAPTURE(quarantined);
    put(1, {0});
    put_raw(key, value);
    CHECK(find(one(1, {4}, sum)) == BlockLoad::corrupt);
    CHECK(port->quarantined() == ++quarantined);
    CHECK(store->read(Column::blocks, bytes_key, [](std::string_view) {}) == Store::Read::missing);
    CHECK(list().size() == 1);
  }
  CHECK(load(one(2, {4}, other_sum)));
  CHECK(port->stored_bytes() == page_bytes);
}

// Items that are put anew while they are ranked: one thread erases and saves a block that another loads.
TEST_CASE_FIXTURE(Tier, "block store: a block that is erased or saved anew while it is loaded is no damage") {
  const std::uint64_t first = put(1, {0});
  fill({1}, 77);
  const std::uint64_t second = checksum_pages(arena, std::vector<std::uint32_t>{1});
  std::atomic<bool> ends = false;
  std::thread writer([&] {
    for (int i = 0; i < 2'000; ++i) {
      if (i % 3 == 0) port->run(EraseBlocks{{named(1)}}, 1);
      const std::uint32_t page = i % 2;
      port->run(SaveBlock{{named(1), SegmentKind::item, "owner", 31, page == 0 ? first : second}, {page}}, 1);
    }
    ends = true;
  });
  std::size_t loads = 0, damaged = 0;
  for (; !ends || loads == 0; ++loads) damaged += find(one(1, {4}, first)) == BlockLoad::corrupt;
  writer.join();
  CHECK(damaged == 0);
  CHECK(port->quarantined() == 0);
}

TEST_CASE_FIXTURE(Tier, "block store: listing also finds damaged headers") {
  put(1, {0}), put(2, {1});
  put_raw(entry(2).first, "nonsense");
  CHECK(list().size() == 1);
  CHECK(port->quarantined() == 1);
  CHECK(list().size() == 1);
  CHECK(port->quarantined() == 1);
}

TEST_CASE_FIXTURE(Tier, "block store: blocks of another model or layout are erased at start") {
  for (const NameContext& other : {NameContext{"model2", "layout"}, NameContext{"model", "layout2"}}) {
    open(model);
    for (const NameContext& next : {other, model}) {  // both orders of the two hashes are covered
      const std::uint64_t sum = put(1, {0});
      open(next);
      CHECK(list().empty());
      CHECK_FALSE(load(one(1, {4}, sum)));
      CHECK(entry(0).first.empty());
      CHECK(port->stored_bytes() == 0);
    }
  }
}

TEST_CASE_FIXTURE(Tier, "block store: pages that do not match their checksum are not saved") {
  SaveBlock wrong = block(1, {0});
  arena.page(0)[7] = std::byte{1};
  const BlockSaveResult saved = std::get<BlockSaveResult>(port->run(wrong, 0));
  CHECK_FALSE(saved.ok);
  CHECK(saved.corrupt);
  CHECK(saved.why == "the pages do not match their checksum");
  CHECK(list().empty());
}

TEST_CASE_FIXTURE(Tier, "block store: pages outside the arena and foreign jobs are refused") {
  SaveBlock wrong = block(1, {0});
  wrong.pages = {8};
  CHECK(std::get<Refusal>(port->run(wrong, 0)).code == "bad_pages");
  CHECK(std::get<Refusal>(port->run(LoadBlocks{{one(1, {0, 8}, 0)}}, 0)).code == "bad_pages");
  CHECK(std::get<Refusal>(port->run(LoadBlocks{{one(1, {}, 0)}}, 0)).code == "bad_pages");
  CHECK(std::get<Refusal>(port->run(ListItems{}, 0)).code == "wrong_port");
}

TEST_CASE_FIXTURE(
    Tier, "block store: a full tier refuses new blocks, replaces its own, and accepts after an erase") {
  open(model, 2 * page_bytes);
  put(1, {0}), put(2, {1});
  const BlockSaveResult refused = save(3, {2});
  CHECK_FALSE(refused.ok);
  CHECK(refused.full);
  CHECK(refused.why.find("the tier is full") == 0);
  CHECK(save(2, {1}).ok);
  port->run(EraseBlocks{{named(1)}}, 0);
  CHECK(save(3, {2}).ok);
  open(model, 2 * page_bytes);
  CHECK_FALSE(save(4, {3}).ok);
}

TEST_CASE_FIXTURE(Tier, "block store: corrupted bytes in any file give misses") {
  std::vector<std::uint64_t> sums;
  for (std::uint8_t n = 0; n < 20; ++n) sums.push_back(put(n, {0, 1, 2, 3}));
  // A write large enough to move everything above from the log into files.
  for (int i = 0; i < 40; ++i)
    put_raw(std::string("zz") + static_cast<char>('A' + i), std::string(1 << 20, 'z'));
  close();
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path() / "rocksdb")) {
    if (file.path().extension() != ".blob") continue;
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (std::uintmax_t at = 20'000; at < file.file_size(); at += 50'000) {
      bytes.seekp(static_cast<std::streamoff>(at));
      bytes.put('!');
    }
    ++files;
  }
  REQUIRE(files > 0);
  open();
  int lost = 0;
  for (std::uint8_t n = 0; n < 20; ++n) {
    fill({4, 5, 6, 7}, 200);
    if (!load(one(n, {4, 5, 6, 7}, sums[n]))) {
      ++lost;
    } else {
      CHECK((holds(4, n) && holds(5, n) && holds(6, n) && holds(7, n)));
    }
  }
  CHECK(lost > 0);
  CHECK(port->quarantined() == static_cast<std::uint64_t>(lost));
}

TEST_CASE_FIXTURE(Tier, "block store: a list that cannot be read whole is a failure, never partial") {
  for (std::uint8_t n = 0; n < 20; ++n) put(n, {0});
  for (int i = 0; i < 40; ++i)  // moves everything above from the log into files
    put_raw(std::string("zz") + static_cast<char>('A' + i), std::string(1 << 20, 'z'));
  close();
  int damaged = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path() / "rocksdb")) {
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(bytes), {}};
    if (file.path().extension() != ".sst" || content.find("owner") == std::string::npos) continue;
    bytes.clear();
    bytes.seekp(20).write("!!!!", 4);
    ++damaged;
  }
  REQUIRE(damaged > 0);
  open();
  CHECK(std::get<Refusal>(port->run(ListStored{}, 0)).code == "storage_failed");
}

TEST_CASE("block store: a full disk makes the tier read-only until space is free") {
  Tier tier("48m");
  if (!tier.folder.mounted()) {
    MESSAGE("skipped: no permission to mount a disk for this test");
    return;
  }
  const std::uint64_t sum = tier.put(1, {0});
  const auto ballast = tier.folder.path() / "ballast";
  std::ofstream(ballast) << std::string(60 << 20, 'x');  // fills most of the disk
  tier.fill({0, 1, 2, 3, 4, 5, 6}, 9);
  BlockSaveResult saved{true};
  for (int i = 0; i < 2000 && saved.ok; ++i)  // the log takes the same names repeatedly
    saved = tier.save(static_cast<std::uint8_t>(2 + i % 100), {0, 1, 2, 3, 4, 5, 6});
  CHECK_FALSE(saved.ok);
  CHECK(saved.full);
  CHECK(saved.why.find("the disk is full") == 0);
  CHECK(tier.load(tier.one(1, {7}, sum)));
  std::filesystem::remove(ballast);
  saved = tier.save(251, {0});
  INFO(saved.why);
  CHECK(saved.ok);
  CHECK(tier.load(tier.one(1, {7}, sum)));
}
