// Benchmarks kernels that work on heads and pages: rotation of queries and keys, realignment,
// clearing.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cuda/bench/bench_work.h"
#include "kernels/cuda/kernels/decoder_kernels.h"
#include "kernels/cuda/kernels/realign.h"

namespace troupe::kernels::cuda {
namespace {

constexpr std::uint32_t positions = 8192;

// Returns pairs of cosine and sine in the layout of a decoder's weights.
std::vector<float> rotations_of(const BenchShape& shape) {
  std::vector<float> rotations;
  const std::vector<double> frequencies = rope_frequencies(config_of(shape));
  for (std::uint32_t p = 0; p < positions; ++p)
    for (const double frequency : frequencies) {
      rotations.push_back(static_cast<float>(std::cos(p * frequency)));
      rotations.push_back(static_cast<float>(std::sin(p * frequency)));
    }
  return rotations;
}

// Rotates one head in double; `distance` may be negative.
std::vector<double> rotated(const BenchShape& shape, const std::vector<double>& head, double distance) {
  const std::vector<double> frequencies = rope_frequencies(config_of(shape));
  const std::size_t half = head.size() / 2;
  std::vector<double> out(head.size());
  for (std::size_t i = 0; i < half; ++i) {
    const double c = std::cos(distance * frequencies[i]), s = std::sin(distance * frequencies[i]);
    out[i] = head[i] * c - head[half + i] * s;
    out[half + i] = head[half + i] * c + head[i] * s;
  }
  return out;
}

// Returns error bounds: a rotated pair's error is relative to its length, not to each number's
// size.
std::vector<double> pair_bounds(const std::vector<double>& head, double relative) {
  const std::size_t half = head.size() / 2;
  std::vector<double> all(head.size());
  for (std::size_t i = 0; i < half; ++i)
    all[i] = all[half + i] = std::hypot(head[i], head[half + i]) * relative + 1e-6;
  return all;
}
constexpr double rounded = 0x1p-8 + 0x1p-18;  // float32 error plus rounding to bf16

void append(CheckedSample& all, const CheckedSample& more) {
  all.got.insert(all.got.end(), more.got.begin(), more.got.end());
  all.want.insert(all.want.end(), more.want.begin(), more.want.end());
  all.bound.insert(all.bound.end(), more.bound.begin(), more.bound.end());
}

KvLayout layout_of(const BenchShape& shape, std::uint32_t layers) {
  return {layers, shape.kv_heads, shape.head_dim(), page_tokens, KvFormat::bf16};
}

BenchWork make_heads_work(const BenchShape& shape, std::uint32_t rows) {
  const std::uint32_t dim = shape.head_dim(), heads = shape.heads, kv_heads = shape.kv_heads;
  const std::uint32_t all = heads + 2 * kv_heads;
  BenchWork work{.kernel = "make_heads",
                 .shape = std::to_string(rows) + " rows, " + std::to_string(heads) + "/" +
                          std::to_string(kv_heads) + " heads of " + std::to_string(dim),
                 .steps = {{CostKind::memory, 6.0 * rows * all * dim, 0}}};
  work.prepare = [=](Chance& chance) {
    const KvLayout layout = layout_of(shape, 1);
    auto qkv = std::make_shared<DeviceNumbers>(NumberKind::f32, std::size_t{rows} * all * dim, chance);
    auto queries = std::make_shared<DeviceNumbers>(NumberKind::bf16, std::size_t{rows} * heads * dim);
    auto pages =
        std::make_shared<DeviceNumbers>(NumberKind::bf16, layout.pages_for(rows) * layout.page_bytes() / 2);
    auto turns = std::make_shared<DeviceList<float>>(rotations_of(shape));
    std::vector<std::uint32_t> at(rows);
    std::vector<std::byte*> slots(rows);
    for (std::uint32_t r = 0; r < rows; ++r) {
      at[r] = static_cast<std::uint32_t>(chance() % positions);
      slots[r] =
          pages->data() + r / page_tokens * layout.page_bytes() + r % page_tokens * layout.vector_bytes();
    }
    auto where = std::make_shared<DeviceList<std::uint32_t>>(at);
    auto slot_list = std::make_shared<DeviceList<std::byte*>>(slots);
    return PreparedWork{
        .run =
            [=](Stream& s) {
              make_heads(layout,
                         {.qkv = qkv->f32(),
                          .stride = std::size_t{all} * dim,
                          .key_at = heads * dim,
                          .value_at = (heads + kv_heads) * dim,
                          .rotations = turns->get(),
                          .positions = where->get(),
                          .slots = slot_list->get(),
                          .queries = queries->half(),
                          .rows = rows,
                          .heads = heads},
                         s);
            },
        .outputs = {queries},
        .checks = rows,
        .check =
            [=](std::size_t row) {
              CheckedSample checked;
              for (std::uint32_t h = 0; h < all; ++h) {
                const auto in = qkv->read((row * all + h) * dim, dim);
                const bool value = h >= heads + kv_heads;
                const std::uint32_t kv_head = (h - heads) % kv_heads;
                const std::size_t kept = (slots[row] - pages->data() +
                                          (value ? layout.values(0, kv_head) : layout.keys(0, kv_head))) /
                                         2;
                append(checked,
                       {h < heads ? queries->read((row * heads + h) * dim, dim) : pages->read(kept, dim),
                        value ? in : rotated(shape, in, at[row]), pair_bounds(in, rounded)});
              }
              return checked;
            }};
  };
  return work;
}

// Realigns blocks of whole pages, each by its own distance, to other pages or in place.
BenchWork realign_work(const BenchShape& shape, std::uint32_t tokens, bool moves) {
  const KvLayout layout = layout_of(shape, shape.layers);
  const auto count = static_cast<std::uint32_t>(layout.pages_for(tokens));
  const double bytes = static_cast<double>(count) * static_cast<double>(layout.page_bytes());
  BenchWork work{.kernel = "realign",
                 .shape = std::to_string(tokens) + " tokens of " + shape.name +
                          (moves ? " to other pages" : " in place"),
                 .steps = {{CostKind::memory, moves ? 2 * bytes : bytes, 0}}};
  work.prepare = [=](Chance& chance) {
    const std::size_t numbers = count * layout.page_bytes() / 2;
    auto first = std::make_shared<DeviceNumbers>(NumberKind::bf16, numbers, chance);
    auto out = std::make_shared<DeviceNumbers>(NumberKind::bf16, numbers);
    auto turns = std::make_shared<DeviceList<float>>(rotations_of(shape));
    std::vector<RealignPage> pages;
    for (std::uint32_t p = 0; p < count; ++p) {
      const auto distance = static_cast<std::int32_t>(1 + chance() % (positions - 1));
      std::byte* const to = out->data() + p * layout.page_bytes();
      pages.push_back({moves ? first->data() + p * layout.page_bytes() : to, to, page_tokens,
                       p % 2 == 0 ? distance : -distance});
    }
    auto list = std::make_shared<DeviceList<RealignPage>>(pages);
    PreparedWork prepared{
        .run = [=](Stream& s) { realign(layout, list->get(), count, turns->get(), s); },
        .outputs = {out},
        .checks = count,
        .check =
            [=](std::size_t page) {
              CheckedSample checked;
              const std::size_t start = page * layout.page_bytes() / 2, dim = layout.head_dim;
              for (const std::uint32_t layer : {0u, layout.layers - 1})
                for (std::uint32_t head = 0; head < layout.kv_heads; ++head)
                  for (const std::uint32_t token : {0u, 7u, page_tokens - 1}) {
                    const std::size_t key = start + layout.keys(layer, head) / 2 + token * dim,
                                      value = start + layout.values(layer, head) / 2 + token * dim;
                    const auto before = first->read(key, dim);
                    append(checked, {out->read(key, dim), rotated(shape, before, pages[page].distance),
                                     pair_bounds(before, rounded)});
                    append(checked,
                           {out->read(value, dim), first->read(value, dim), std::vector<double>(dim)});
                  }
              return checked;
            }};
    if (!moves) prepared.before = [=](Stream& s) { s.copy(out->data(), first->data(), out->size_bytes()); };
    return prepared;
  };
  return work;
}

BenchWork clear_work(const BenchShape& shape, std::uint32_t tokens) {
  const KvLayout layout = layout_of(shape, shape.layers);
  BenchWork work{.kernel = "clear_tokens",
                 .shape = std::to_string(tokens) + " tokens of " + shape.name,
                 .steps = {{CostKind::memory,
                            static_cast<double>(tokens) * static_cast<double>(layout.token_bytes()), 0}}};
  work.prepare = [=](Chance&) {
    auto pages = std::make_shared<DeviceNumbers>(NumberKind::bf16, tokens * layout.page_bytes() / 2);
    std::vector<std::byte*> addresses;  // the last token of as many pages
    for (std::uint32_t t = 0; t < tokens; ++t)
      addresses.push_back(pages->data() + t * layout.page_bytes() +
                          (page_tokens - 1) * layout.vector_bytes());
    auto list = std::make_shared<DeviceList<std::byte*>>(addresses);
    auto how_many = std::make_shared<DeviceList<std::uint32_t>>(std::vector<std::uint32_t>{tokens});
    return PreparedWork{
        .run = [=](Stream& s) { clear_tokens(layout, list->get(), how_many->get(), s); },
        .checks = tokens,
        .check =
            [=](std::size_t token) {
              const std::size_t dim = layout.head_dim,
                                at = (token * layout.page_bytes() + layout.values(layout.layers - 1, 0)) / 2 +
                                     (page_tokens - 1) * dim;
              return CheckedSample{pages->read(at, dim), std::vector<double>(dim), {0}};
            }};
  };
  return work;
}

}  // namespace

void add_head_works(const BenchShape& shape, std::vector<BenchWork>& works) {
  for (const std::uint32_t rows : row_counts(shape)) works.push_back(make_heads_work(shape, rows));
  works.push_back(clear_work(shape, page_tokens - 1));
}

void add_realign_works(const BenchShape& shape, std::vector<BenchWork>& works) {
  for (const bool moves : {false, true}) {
    works.push_back(realign_work(shape, shape.history, moves));
    works.push_back(realign_work(shape, shape.many_rows, moves));
  }
}

}  // namespace troupe::kernels::cuda
