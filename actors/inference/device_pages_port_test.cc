// Runs on the emulated device in actors_test, and on a GPU in device_pages_test.
#include "actors/inference/device_pages_port.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <thread>

#include "actors/inference/compute_port.h"
#include "kernels/base/errors.h"
#include "kernels/cuda/engine/decoder.h"
#include "kernels/cuda/testing/device_test.h"
#include "runtime/testing/batch_of.h"
#ifdef TROUPE_EMULATED
#include "kernels/cuda/simt/device_emulated.h"
#include "kernels/cuda/simt/emulator.h"
#endif

namespace troupe::actors {
namespace device_pages_port_test {

namespace cuda = kernels::cuda;

std::unique_ptr<kernels::Executor> decoder(std::uint64_t seed, std::uint32_t layers = 2) {
  kernels::DecoderConfig config;
  config.family = kernels::Family::llama;
  config.layers = layers, config.hidden = 16, config.heads = 2, config.kv_heads = 1, config.head_dim = 32;
  config.intermediate = 24, config.vocabulary = 40, config.positions_max = 100;
  return cuda::make_cuda_decoder(kernels::random_decoder(config, seed), {.page_tokens = 4,
                                                                         .rows_max = 64,
                                                                         .keys_max = 1 << 10,
                                                                         .logits_max = 1 << 8,
                                                                         .plan_bytes_max = 1 << 18,
                                                                         .graphs_max = 4});
}

BatchSegmentKv kv(Grant grant, std::uint64_t generation, std::vector<std::uint32_t> pages,
                  std::uint64_t checksum = 0) {
  return {grant, checksum, std::move(pages), generation};
}

// Three tokens that may be a block, and one token that sees them and is read out.
BatchRequest request(Token first, const BatchSegmentKv& block = {}) {
  BatchRequest r;
  r.plan.segments = {{SegmentKind::user, {first, 2, 3}}, {SegmentKind::discriminant, {7}, 3, {0}}};
  r.plan.readouts = {{1, 0, {4, 5}}};
  r.blocks.resize(2);
  r.kv = {block, {}};
  return r;
}

// A device with `device_pages` pages, and a pool of 16.
struct Bench {
  PageArena arena{decoder(1)->layout().page_bytes(), 16};
  const std::uint32_t pages;
  std::uint64_t generation = 0;
  ComputePort port{{.model = decoder(1),
                    .model_version = "one",
                    .arena = arena,
                    .slots = 2,
                    .make_pages =
                        [this](PageArena& a, std::uint32_t slots) {
                          return std::make_unique<DevicePages>(a, 0, pages, slots, true);
                        },
                    .loader =
                        [](const std::string& version) {
                          if (version == "two") return decoder(2);
                          if (version == "deep") return decoder(4, 3);
                          throw kernels::LoadError(version + ": no such directory");
                        }}};

  explicit Bench(std::uint32_t device_pages) : pages(device_pages) {}

  JobResult try_run(std::vector<BatchRequest> requests, std::uint32_t slot = 0) {
    return port.run(batch_of(std::move(requests)), slot);
  }
  BatchDone run(std::vector<BatchRequest> requests, std::uint32_t slot = 0) {
    return std::get<BatchDone>(try_run(std::move(requests), slot));
  }
  // Computes a request's block into this page of the pool. Returns the grant of a later reader.
  BatchSegmentKv write(Token first, std::uint32_t page) {
    BatchSegmentKv grant = kv(Grant::write, ++generation, {page});
    grant.checksum = run({request(first, grant)}).replies.at(0).checksums.at(0);
    grant.grant = Grant::read;
    CHECK(grant.checksum == checksum_pages(arena, grant.pages));
    return grant;
  }
  std::vector<ScoreRow> computed(Token first) { return run({request(first)}).replies.at(0).readouts; }
};

bool close(const std::vector<ScoreRow>& a, const std::vector<ScoreRow>& b) {
  for (int row = 0; row < 2; ++row)
    if (std::abs(a.at(0).scores.at(row) - b.at(0).scores.at(row)) > 0.02) return false;
  return true;
}

TEST_CASE("device pages: a block written on the device is in the pool, and a second pass reads its copy") {
  if (!cuda::have_device()) return;
  Bench b(8);
  const BatchSegmentKv block = b.write(1, 3);
  const BatchDone reused = b.run({request(1, block)});
  CHECK(reused.device.blocks_hit == 1);
  CHECK(reused.device.bytes_to_device == 0);
  CHECK(reused.replies.at(0).corrupt.empty());
  CHECK(close(reused.replies.at(0).readouts, b.computed(1)));
  CHECK_FALSE(close(reused.replies.at(0).readouts, b.computed(9)));
}

TEST_CASE("device pages: a block put into the pool otherwise is copied to the device once, for both slots") {
  if (!cuda::have_device()) return;
  Bench from(8), to(8);
  BatchSegmentKv block = from.write(1, 3);
  std::memcpy(to.arena.page(5), from.arena.page(3), to.arena.page_bytes());
  block.pages = {5};
  const BatchDone first = to.run({request(1, block)});
  CHECK(first.device.blocks_missed == 1);
  CHECK(first.device.bytes_to_device == to.arena.page_bytes());
  CHECK(close(first.replies.at(0).readouts, from.computed(1)));
  CHECK(to.run({request(1, block)}, 1).device.blocks_hit == 1);
}

TEST_CASE("device pages: a reused page of the pool is never taken for its former block") {
  if (!cuda::have_device()) return;
  Bench b(8);
  const BatchSegmentKv former = b.write(1, 3);
  CHECK(b.run({request(1, former)}).device.blocks_hit == 1);
  const BatchSegmentKv present = b.write(9, 3);  // the same page of the pool
  CHECK(close(b.run({request(9, present)}).replies.at(0).readouts, b.computed(9)));
  // Bytes may also come without a pass: from the disk, or from another node.
  Bench other(8);
  const BatchSegmentKv theirs = other.write(5, 3);
  std::memcpy(b.arena.page(3), other.arena.page(3), b.arena.page_bytes());
  const BatchDone pulled = b.run({request(5, kv(Grant::read, ++b.generation, {3}, theirs.checksum))});
  CHECK(pulled.device.blocks_missed == 1);
  CHECK(close(pulled.replies.at(0).readouts, b.computed(5)));
}

TEST_CASE("device pages: a damaged page of the pool is noticed on its way to the device, and computed") {
  if (!cuda::have_device()) return;
  Bench b(2);
  const BatchSegmentKv block = b.write(1, 3);
  b.write(5, 4), b.write(6, 5);  // its copy is evicted from the device
  b.arena.page(3)[1] ^= std::byte{4};
  const BatchReply reply = b.run({request(1, block)}).replies.at(0);
  CHECK(reply.corrupt == std::vector<std::uint32_t>{0});
  CHECK(close(reply.readouts, b.computed(1)));
  b.arena.page(3)[1] ^= std::byte{4};
  CHECK(b.run({request(1, block)}).replies.at(0).corrupt.empty());
}

TEST_CASE(
    "device pages: a batch with more blocks than the device holds runs in parts; such a request is refused") {
  if (!cuda::have_device()) return;
  Bench b(2);
  std::vector<BatchSegmentKv> blocks;
  for (std::uint32_t i = 0; i < 5; ++i) blocks.push_back(b.write(static_cast<Token>(10 + i), i));
  std::vector<BatchRequest> batch;
  for (std::uint32_t i = 0; i < 5; ++i) batch.push_back(request(static_cast<Token>(10 + i), blocks[i]));
  BatchRequest large = request(20);
  large.plan.segments[0].tokens = Tokens(9, 1);
  large.plan.segments[1].start = 9;
  large.kv[0] = kv(Grant::write, ++b.generation, {7, 8, 9});
  batch.insert(batch.begin() + 2, large);
  const BatchDone done = b.run(batch);
  for (std::uint32_t i = 0; i < 5; ++i)
    CHECK(close(done.replies.at(i < 2 ? i : i + 1).readouts, b.computed(static_cast<Token>(10 + i))));
  REQUIRE(done.replies.at(2).refusal);
  CHECK(done.replies.at(2).refusal->kind == RefusalKind::unprocessable);
  CHECK(done.replies.at(2).refusal->what == "the plan's blocks take 3 pages");
  CHECK(done.device.blocks_evicted > 0);
}

TEST_CASE("device pages: a batch of more than one pass runs in parts; such a request is refused") {
  if (!cuda::have_device()) return;
  Bench b(8);
  std::vector<BatchRequest> batch(20, request(1));  // 80 rows; a pass has 64
  BatchRequest large = request(1);
  large.plan.segments[0].tokens = Tokens(70, 1);
  large.plan.segments[1].start = 70;
  batch.push_back(large);
  const BatchDone done = b.run(batch);
  for (int i = 0; i < 20; ++i) CHECK(close(done.replies.at(i).readouts, done.replies.at(0).readouts));
  REQUIRE(done.replies.at(20).refusal);
  CHECK(done.replies.at(20).refusal->code == "too_large");
}

TEST_CASE("device pages: models are loaded and dropped, and each reads its own blocks") {
  if (!cuda::have_device()) return;
  Bench b(8);
  REQUIRE(std::holds_alternative<ModelChanged>(b.port.run(LoadModel{"two"}, 0)));
  CHECK(std::get<Refusal>(b.port.run(LoadModel{"deep"}, 0)).code == "other_layout");
  CHECK(std::get<Refusal>(b.port.run(LoadModel{"none"}, 0)).code == "bad_model");
  const auto one = b.computed(1);
  BatchRequest on_two = request(1);
  on_two.model_version = "two";
  const auto two = b.run({on_two}).replies.at(0).readouts;
  CHECK_FALSE(close(one, two));
  on_two.kv[0] = kv(Grant::write, ++b.generation, {6});
  on_two.kv[0].checksum = b.run({on_two}).replies.at(0).checksums.at(0);
  on_two.kv[0].grant = Grant::read;
  const BatchDone mixed = b.run({on_two, request(1)});
  CHECK(close(mixed.replies.at(0).readouts, two));
  CHECK(close(mixed.replies.at(1).readouts, one));
  CHECK(std::holds_alternative<ModelChanged>(b.port.run(DropModel{"two"}, 1)));
  CHECK(b.run({on_two}).replies.at(0).refusal->code == "wrong_model");
}

TEST_CASE("device pages: slots that share a device smaller than their blocks all get their answers") {
  if (!cuda::have_device()) return;
  Bench b(2);
  std::vector<BatchSegmentKv> blocks;
  std::vector<std::vector<ScoreRow>> expected;
  for (std::uint32_t i = 0; i < 4; ++i) {
    blocks.push_back(b.write(static_cast<Token>(10 + i), i));
    expected.push_back(b.computed(static_cast<Token>(10 + i)));
  }
  std::atomic<int> wrong = 0;
  const auto serve = [&](std::uint32_t slot) {
    for (std::uint32_t round = 0; round < 12; ++round) {
      const std::uint32_t i = (round * (slot + 1)) % 4, k = (i + 1) % 4;
      const BatchDone done = b.run(
          {request(static_cast<Token>(10 + i), blocks[i]), request(static_cast<Token>(10 + k), blocks[k])},
          slot);
      wrong += !close(done.replies.at(0).readouts, expected[i]) || !done.replies.at(0).corrupt.empty();
      wrong += !close(done.replies.at(1).readouts, expected[k]) || !done.replies.at(1).corrupt.empty();
    }
  };
  std::thread other(serve, 1);
  serve(0);
  other.join();
  CHECK(wrong == 0);
}

#ifdef TROUPE_EMULATED

TEST_CASE("device pages: the pool is page-locked only while a DevicePages exists") {
  PageArena arena(64, 2);
  const auto locked = [&] { return cuda::emulator::is_page_locked(arena.page(0), 2 * 64); };
  {
    const DevicePages pages(arena, 0, 1, 1, true);
    CHECK(locked());
  }
  CHECK_FALSE(locked());
}

TEST_CASE("device pages: a slot does not read a block that another slot is still copying") {
  const kernels::KvLayout layout{1, 1, 8, 2, kernels::KvFormat::bf16};
  PageArena arena(layout.page_bytes(), 2);
  DevicePages pages(arena, 0, 4, 3, true);
  const BatchSegmentKv block = kv(Grant::read, 5, {1}, checksum_pages(arena, std::vector<std::uint32_t>{1}));
  cuda::Stream stream;  // occupies the device until `let_go`
  std::promise<void> busy, let_go;
  cuda::emulator::enqueue(stream, [&] {
    busy.set_value();
    let_go.get_future().wait();
  });
  std::thread device([&] { stream.synchronize(); });
  busy.get_future().wait();
  std::atomic<int> there = 0;
  const auto read = [&](std::uint32_t slot) {
    PassBlocks blocks{{&block, 0, {}}};
    DeviceUse use;
    CHECK(pages.begin({&blocks, 1}, slot, use) == 1);
    ++there;
  };
  const auto pages_used = [&] {  // as seen by a request without blocks
    PassBlocks none;
    DeviceUse use;
    pages.begin({&none, 1}, 2, use);
    pages.end(2, false);
    return use.pages_used;
  };
  std::thread first(read, 0);
  while (pages_used() == 0) std::this_thread::yield();
  std::thread second(read, 1);
  for (int i = 0; i < 5000; ++i) {
    CHECK(pages_used() == 1);
    std::this_thread::yield();
  }
  CHECK(there == 0);
  let_go.set_value();
  for (std::thread* thread : {&device, &first, &second}) thread->join();
  CHECK(there == 2);
  for (const std::uint32_t slot : {0, 1}) pages.end(slot, false);
}

TEST_CASE("device pages: a failing device refuses the batch, and then serves again from the pool") {
  Bench b(8);
  const BatchSegmentKv block = b.write(1, 3);
  const auto expected = b.run({request(1, block)}).replies.at(0).readouts;
  int failures = 0;
  for (std::uint64_t command = 1; command < 1000; ++command) {
    CAPTURE(command);
    cuda::emulator::fail_command(command);
    const JobResult result =
        b.try_run({request(1, block), request(9, kv(Grant::write, ++b.generation, {4}))});
    cuda::emulator::fail_command(0);
    if (!std::holds_alternative<Refusal>(result)) break;
    ++failures;
    CHECK(std::get<Refusal>(result).kind == RefusalKind::unavailable);
    CHECK(std::get<Refusal>(result).code == "device_failed");
    const BatchDone after = b.run({request(1, block)});
    CHECK(after.device.blocks_missed == 1);  // all copies on the device are forgotten
    CHECK(close(after.replies.at(0).readouts, expected));
  }
  CHECK(failures > 10);
}

#endif

}  // namespace device_pages_port_test
}  // namespace troupe::actors
