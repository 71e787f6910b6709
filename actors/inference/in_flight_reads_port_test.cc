#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "actors/inference/compute_port.h"
#include "kernels/decoder/decoder.h"
#include "runtime/testing/batch_of.h"

namespace troupe::actors {
namespace in_flight_reads_port_test {

constexpr std::uint64_t generation = 9;
constexpr std::int64_t patient_us = 60'000'000;

std::unique_ptr<kernels::Executor> decoder() {
  kernels::DecoderConfig config;
  config.family = kernels::Family::llama;
  config.layers = 2, config.hidden = 16, config.heads = 2, config.kv_heads = 2, config.head_dim = 8;
  config.intermediate = 24, config.vocabulary = 40, config.positions_max = 100;
  return kernels::make_cpu_decoder(kernels::random_decoder(config, 1), {.page_tokens = 4});
}

// An executor that needs all pages before it begins.
class Whole final : public kernels::Executor {
 public:
  explicit Whole(std::unique_ptr<kernels::Executor> inner) : inner_(std::move(inner)) {}
  kernels::PlanLimits limits() const override { return inner_->limits(); }
  const kernels::PageLayout& layout() const override { return inner_->layout(); }
  void run(std::span<const kernels::Request> batch, std::vector<kernels::Reply>& replies) override {
    for (const kernels::Request& request : batch) REQUIRE(request.in_flight == nullptr);
    inner_->run(batch, replies);
  }
  void measure(kernels::PassTimes* times) override { inner_->measure(times); }
  std::unique_ptr<kernels::Executor> share(std::uint32_t executor) const override {
    return std::make_unique<Whole>(inner_->share(executor));
  }

 private:
  std::unique_ptr<kernels::Executor> inner_;
};

// The block of three tokens is in page 3 and is copied from there into page 5. The plan's kept
// block goes to page 6.
struct Bench {
  explicit Bench(bool by_layer = true)
      : port({.model = by_layer ? decoder() : std::make_unique<Whole>(decoder()),
              .model_version = "one",
              .arena = arena,
              .make_pages = ComputePort::arena_pages(false)}) {
    BatchRequest writer = request({Grant::write, 0, {3}});
    checksum = run(writer).replies.at(0).checksums.at(0);
    kept = run(request({Grant::read, checksum, {3}}));
    computed = run(request({}));
    std::memset(arena.page(5), 0xff, arena.page_bytes());  // NaNs
    arena.arrivals().begin(generation);
  }
  static BatchRequest request(BatchSegmentKv kv) {
    BatchRequest r;
    r.plan.segments = {{SegmentKind::user, {1, 2, 3}},
                       {SegmentKind::item, {7, 8}, 3, {0}},
                       {SegmentKind::discriminant, {9}, 5, {0, 1}}};
    r.plan.readouts = {{2, 0, {4, 5}}};
    r.blocks.resize(3);
    r.kv = {std::move(kv), {Grant::write, 0, {6}}, {}};
    return r;
  }
  BatchRequest in_flight() const { return request({Grant::read, checksum, {5}, generation, false, true}); }
  BatchDone run(const BatchRequest& r, std::int64_t in_flight_us = patient_us) {
    RunBatch batch = batch_of({r});
    batch.in_flight_us = in_flight_us;
    return std::get<BatchDone>(port.run(batch, 0));
  }
  void bring(std::size_t part) {
    const std::size_t half = arena.page_bytes() / 2;
    std::memcpy(arena.page(5) + part * half, arena.page(3) + part * half, half);
    arena.arrivals().advance({&generation, 1}, (part + 1) * half);
  }

  PageArena arena{decoder()->layout().page_bytes(), 8};
  ComputePort port;
  std::uint64_t checksum = 0;
  BatchDone kept, computed;
};

TEST_SUITE("in_flight_reads") {
  TEST_CASE(
      "blocks in flight: a block is read behind its copy, waiting for the whole block or for each layer") {
    for (const bool by_layer : {true, false}) {
      Bench b(by_layer);
      CHECK(b.port.waits_by_layer() == by_layer);
      std::thread copy([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        b.bring(0);
        b.bring(1);
        b.arena.arrivals().end(generation, true);
      });
      const BatchDone done = b.run(b.in_flight());
      copy.join();
      CHECK(done.waited_us > 5'000);
      CHECK(done.in_flight_us > 5'000);
      CHECK(done.replies.at(0).readouts == b.kept.replies.at(0).readouts);
      CHECK(done.replies[0].checksums == b.kept.replies[0].checksums);
      CHECK(done.replies[0].missed.empty());
      CHECK(done.waited_us <= done.in_flight_us + 1'000'000);
    }
  }

  TEST_CASE("blocks in flight: bytes that turn out wrong at the end are neither answered from nor kept") {
    for (const bool by_layer : {true, false}) {
      Bench b(by_layer);
      b.bring(0);
      b.bring(1);
      b.arena.page(5)[9] ^= std::byte{64};
      b.arena.arrivals().end(generation, false);
      const BatchDone done = b.run(b.in_flight());
      CHECK(done.replies.at(0).missed == std::vector<std::uint32_t>{0});
      CHECK(done.replies[0].readouts == b.computed.replies.at(0).readouts);
      CHECK(done.replies[0].checksums.at(1) == b.computed.replies[0].checksums.at(1));
      CHECK(done.in_flight_us == 0);
    }
  }

  TEST_CASE("blocks in flight: a block whose copy breaks off is computed") {
    Bench b;
    std::thread copy([&] {
      b.bring(0);
      b.arena.arrivals().end(generation, false);
    });
    const BatchDone done = b.run(b.in_flight());
    copy.join();
    CHECK(done.replies.at(0).missed == std::vector<std::uint32_t>{0});
    CHECK(done.replies[0].readouts == b.computed.replies.at(0).readouts);
  }

  TEST_CASE("blocks in flight: a block late or unknown at the deadline is computed") {
    Bench b;
    b.bring(0);
    BatchRequest impatient = b.in_flight();
    CHECK(b.run(impatient, 0).replies.at(0).readouts == b.computed.replies.at(0).readouts);
    impatient.kv[0].generation = 77;
    CHECK(b.run(impatient, 0).replies.at(0).missed == std::vector<std::uint32_t>{0});
  }
}

}  // namespace in_flight_reads_port_test
}  // namespace troupe::actors
