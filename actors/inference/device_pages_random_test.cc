// Executor slots on threads of their own over few pages of a device, without a decoder. Each slot
// verifies the bytes that it gets.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "actors/inference/device_pages_port.h"
#include "kernels/cuda/testing/device_test.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::actors {
namespace device_pages_random_test {

namespace cuda = kernels::cuda;

constexpr kernels::KvLayout layout{2, 1, 8, 2, kernels::KvFormat::bf16};
constexpr std::uint32_t slots_count = 3, shared_blocks = 12, pages_per_block = 2, own_blocks = 4;

// The pool: shared blocks that all slots read, then some block positions for each slot's own
// blocks.
struct Pool {
  PageArena arena{layout.page_bytes(), (shared_blocks + slots_count * own_blocks) * pages_per_block};
  std::atomic<std::uint64_t> generation = 1'000;
  std::vector<BatchSegmentKv> shared;

  Pool() {
    for (std::uint32_t b = 0; b < shared_blocks; ++b) {
      BatchSegmentKv& kv = shared.emplace_back(block(b, b + 1));
      kv.grant = Grant::read;
      for (const std::uint32_t page : kv.pages)
        std::memset(arena.page(page), mark(b + 1), layout.page_bytes());
      kv.checksum = checksum_pages(arena, kv.pages);
    }
  }
  static BatchSegmentKv block(std::uint32_t place, std::uint64_t generation) {
    return {Grant::write, 0, {place * pages_per_block, place * pages_per_block + 1}, generation};
  }
  static int mark(std::uint64_t generation) { return static_cast<int>(generation * 37 % 251); }
};

struct SlotState {
  Pool& pool;
  DevicePages& pages;
  std::uint32_t number;
  std::mt19937_64 random;
  std::vector<BatchSegmentKv> own{own_blocks};
  cuda::Stream stream;
  int passes = 0, lost = 0, wrong = 0;
  DeviceUse use;

  std::uint64_t below(std::uint64_t n) { return random() % n; }

  // Draws one to three requests of up to three blocks. Each of the slot's own positions is in at
  // most one of them.
  std::vector<std::vector<BatchSegmentKv>> draw() {
    std::vector<std::vector<BatchSegmentKv>> requests(1 + below(3));
    std::uint32_t place = static_cast<std::uint32_t>(below(own_blocks));
    for (auto& request : requests) {
      for (std::uint64_t i = 0, count = below(3); i < count; ++i)
        request.push_back(pool.shared[below(shared_blocks)]);
      if (below(2) == 0) continue;
      BatchSegmentKv& kv = own[place = (place + 1) % own_blocks];
      // The position gets another block, as in a pool.
      if (kv.grant == Grant::none || below(2) == 0)
        kv = Pool::block(shared_blocks + number * own_blocks + place, ++pool.generation);
      request.push_back(kv);
    }
    return requests;
  }
  void check_bytes(std::byte* page, int mark) {
    std::vector<std::byte> bytes(layout.page_bytes());
    stream.download(bytes.data(), page, bytes.size());
    stream.synchronize();
    for (const std::byte byte : bytes)
      if (byte != std::byte(mark)) {
        ++wrong;
        return;
      }
  }
  // Acts as a decoder: reads cached blocks and writes the others.
  void compute(const PassBlocks& blocks) {
    for (const PassBlock& block : blocks) {
      const int mark = Pool::mark(block.kv->generation);
      wrong += block.corrupt || block.pages.size() != pages_per_block;
      const std::vector<std::byte> bytes(layout.page_bytes(), std::byte(mark));
      for (std::byte* page : block.pages)
        if (block.kv->grant == Grant::write) stream.upload(page, bytes.data(), bytes.size());
      stream.synchronize();
      for (std::byte* page : block.pages) check_bytes(page, mark);
    }
  }
  void commit(const PassBlocks& blocks) {
    for (const PassBlock& block : blocks) {
      if (block.kv->grant != Grant::write) continue;
      wrong += block.checksum != checksum_pages(pool.arena, block.kv->pages);
      wrong += *pool.arena.page(block.kv->pages[1]) != std::byte(Pool::mark(block.kv->generation));
      for (BatchSegmentKv& kv : own)
        if (kv.generation == block.kv->generation) kv.grant = Grant::read, kv.checksum = block.checksum;
    }
  }
  void pass() {
    const auto requests = draw();
    std::vector<PassBlocks> blocks(requests.size());
    for (std::size_t r = 0; r < requests.size(); ++r)
      for (std::uint32_t i = 0; i < requests[r].size(); ++i) blocks[r].push_back({&requests[r][i], i, {}});
    ++passes;
    const bool fails = below(20) == 0;
    try {
      const std::size_t count = pages.begin(blocks, number, use);
      wrong += count == 0 || count > requests.size();
      for (std::size_t r = 0; r < count; ++r) compute(blocks[r]);
      if (!fails) pages.keep(std::span(blocks).first(count), number, use);
      if (!fails)
        for (std::size_t r = 0; r < count; ++r) commit(blocks[r]);
    } catch (const cuda::DeviceError&) {
      ++lost;
    }
    pages.end(number, fails);
  }
};

TEST_CASE("device pages: on a small device with failures each slot finds the bytes of its blocks") {
  if (!cuda::have_device()) return;
  const std::uint64_t seed = std::random_device()();
  CAPTURE(seed);
  Pool pool;
  DevicePages pages(pool.arena, 0, 5 * pages_per_block, slots_count, true);
  std::vector<std::unique_ptr<SlotState>> slots;
  for (std::uint32_t i = 0; i < slots_count; ++i)
    slots.push_back(std::unique_ptr<SlotState>(new SlotState{pool, pages, i, std::mt19937_64(seed + i)}));
  std::vector<std::thread> threads;
  for (const auto& slot : slots)
    threads.emplace_back([&slot] {
      for (int i = 0; i < 300; ++i) slot->pass();
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& slot : slots) {
    CHECK(slot->wrong == 0);
    CHECK(slot->passes == 300);
    CHECK(slot->lost < 200);
    CHECK(slot->use.blocks_hit > 0);
    CHECK(slot->use.blocks_missed > 0);
  }
}

}  // namespace device_pages_random_test
}  // namespace troupe::actors
