#include "kernels/cpu/engine/repair_pass.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cmath>
#include <vector>

#include "kernels/checkpoint/model.h"
#include "kernels/decoder/decoder.h"

namespace troupe::kernels {
namespace {
namespace repair_pass_test {

// Memory that ends at an inaccessible page.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t bytes) : capacity_((bytes + page - 1) / page * page) {
    void* const memory =
        mmap(nullptr, capacity_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    begin_ = static_cast<std::byte*>(memory);
    REQUIRE(mprotect(begin_ + capacity_, page, PROT_NONE) == 0);
    data = begin_ + capacity_ - bytes;
  }
  ~GuardedMemory() { munmap(begin_, capacity_ + page); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* data = nullptr;

 private:
  static constexpr std::size_t page = 4096;
  const std::size_t capacity_;
  std::byte* begin_ = nullptr;
};

DecoderConfig config_of(std::uint32_t head_dim) {
  DecoderConfig config;
  config.layers = 3, config.hidden = 24, config.heads = 4, config.kv_heads = 2, config.head_dim = head_dim;
  config.intermediate = 36, config.vocabulary = 50, config.positions_max = 300, config.qkv_bias = true;
  return config;
}

// A block of two pages and its span in a prompt. Attention and divergence choose two tokens, and
// these correct the others.
Plan repaired_plan() {
  const std::vector<Token> block{3, 1, 4, 1, 5, 9, 2, 6};
  Plan plan;
  plan.segments = {{SegmentKind::item, block, 0, {}},
                   {SegmentKind::system, {1, 2, 3}, 0, {}},
                   {SegmentKind::item, block, 3, {1}},
                   {SegmentKind::discriminant, {7, 8}, 11, {1, 2}}};
  plan.readouts = {{3, 1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}};
  plan.repair = {.reused_spans = {{2, 0, 0}},
                 .budgets = {2},
                 .attention = 1,
                 .divergence = 1,
                 .attending = 3,
                 .exact_layers = 2,
                 .mean = true};
  return plan;
}

TEST_CASE("repair pass: a block is read to its last number and no further, in every format") {
  const Plan plan = repaired_plan();
  for (const KvFormat format : {KvFormat::f32, KvFormat::f16, KvFormat::bf16})
    for (const std::uint32_t head_dim : {32, 256}) {
      CAPTURE(format_name(format));
      CAPTURE(head_dim);
      const DecoderModel model = random_decoder(config_of(head_dim), 5);
      const auto decoder = make_cpu_decoder(model, {.page_tokens = 4, .kv = format});
      REQUIRE(validate(plan, decoder->limits()) == "");
      const std::size_t bytes = decoder->layout().page_bytes();
      REQUIRE(bytes % 64 == 0);  // so that an aligned page can end at the inaccessible one
      const GuardedMemory first(bytes), second(bytes);
      Request request{&plan, std::vector<SegmentKv>(plan.segments.size())};
      request.kv[0] = {Source::compute, {first.data, second.data}};
      const Reply made = decoder->run({&request, 1})[0];
      request.kv[0].source = Source::cached;
      const Reply read = decoder->run({&request, 1})[0];
      CHECK(read.chosen == made.chosen);
      REQUIRE(read.readouts[0].size() == 10);
      const double rounding = format == KvFormat::f32 ? 1e-5 : 1e-2;  // of numbers of size 1
      for (std::size_t i = 0; i < 10; ++i)
        CHECK(std::abs(read.readouts[0][i] - made.readouts[0][i]) < rounding);
    }
}

}  // namespace repair_pass_test
}  // namespace
}  // namespace troupe::kernels
