// Benchmarks matrix products of a pass, and the products of its readouts.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/bench/bench_work.h"
#include "kernels/cuda/device/product.h"
#include "kernels/cuda/kernels/decoder_kernels.h"

namespace troupe::kernels::cuda {
namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Returns the error bound: float32 sums of numbers of size 1 have far smaller errors than this
// share of sqrt(n); then they are rounded.
double product_bound(std::size_t inputs, double want, bool half) {
  return std::sqrt(static_cast<double>(inputs)) * 0x1p-14 + (half ? std::abs(want) * 0x1p-8 : 0);
}

BenchWork product_work(std::uint32_t rows, std::uint32_t inputs, std::uint32_t outputs, ProductOut kind) {
  const bool half = kind == ProductOut::half;
  const double out_bytes = half ? 2 : kind == ProductOut::f32 ? 4 : 8;
  BenchWork work{
      .kernel = "product",
      .shape = std::to_string(rows) + " x " + std::to_string(inputs) + " to " + std::to_string(outputs) +
               (half                      ? ""
                : kind == ProductOut::f32 ? ", f32"
                                          : ", added"),
      .steps = {{CostKind::product, 2.0 * inputs * rows + 2.0 * inputs * outputs + out_bytes * rows * outputs,
                 2.0 * rows * inputs * outputs}},
      .peer = {"product", {{"rows", rows}, {"inputs", inputs}, {"outputs", outputs}}}};
  work.prepare = [=](Chance& chance) {
    const NumberKind out_kind = half ? NumberKind::bf16 : NumberKind::f32;
    const std::size_t count = std::size_t{rows} * outputs;
    auto in = std::make_shared<DeviceNumbers>(NumberKind::bf16, std::size_t{rows} * inputs, chance);
    auto weight = std::make_shared<DeviceNumbers>(NumberKind::bf16, std::size_t{outputs} * inputs, chance);
    auto out = std::make_shared<DeviceNumbers>(out_kind, count);
    std::shared_ptr<DeviceNumbers> first;
    if (kind == ProductOut::add_f32) first = std::make_shared<DeviceNumbers>(out_kind, count, chance);
    std::shared_ptr<Product> product = make_product(HalfFormat::bf16);
    const auto column = static_cast<std::uint32_t>(chance() % outputs);
    PreparedWork prepared{
        .run =
            [=](Stream& s) {
              product->run({rows, inputs, outputs, kind}, {in->half(), weight->half(), nullptr, out->data()},
                           s);
            },
        .outputs = {out},
        .checks = rows,
        .check = [=](std::size_t row) {  // an eighth of a row's outputs, from a random column on
          CheckedSample checked;
          const std::vector<double> x = in->read(row * inputs, inputs);
          const std::vector<double> got = out->read(row * outputs, outputs);
          for (std::uint32_t n = 0; n < std::max(1u, std::min(outputs / 8, 16u)); ++n) {
            const std::size_t o = (column + n * 37 + row) % outputs;
            const double before = first == nullptr ? 0 : first->read(row * outputs + o, 1)[0];
            checked.got.push_back(got[o]);
            checked.want.push_back(before + dot(x, weight->read(o * inputs, inputs)));
            checked.bound.push_back(product_bound(inputs, checked.want.back(), half));
          }
          return checked;
        }};
    if (first != nullptr)
      prepared.before = [=](Stream& s) { s.copy(out->data(), first->data(), out->size_bytes()); };
    return prepared;
  };
  return work;
}

// Multiplies `states` rows of the residual stream with the same `rows` rows of the vocabulary.
BenchWork readout_work(const BenchShape& shape, std::uint32_t states, std::uint32_t rows) {
  const std::uint32_t width = shape.hidden, vocabulary = shape.vocabulary;
  BenchWork work{
      .kernel = "read_out",
      .shape =
          std::to_string(states) + " states, " + std::to_string(rows) + " rows of " + std::to_string(width),
      .steps = {{CostKind::memory, 4.0 * states * width + 2.0 * rows * width + 4.0 * states * rows, 0}}};
  work.prepare = [=](Chance& chance) {
    std::vector<std::uint32_t> lists(rows + states);
    for (std::uint32_t r = 0; r < rows; ++r) lists[r] = r * (vocabulary / rows);
    for (std::uint32_t s = 0; s < states; ++s) lists[rows + s] = s;
    std::vector<ReadoutBlock> blocks;
    for (std::uint32_t s = 0; s < states; s += readout_block_states)
      for (std::uint32_t r = 0; r < rows; r += readout_block_rows)
        blocks.push_back({r, std::min(readout_block_rows, rows - r), rows + s,
                          std::min(readout_block_states, states - s), s * rows + r, rows});
    auto output = std::make_shared<DeviceNumbers>(NumberKind::bf16, std::size_t{vocabulary} * width, chance);
    auto in = std::make_shared<DeviceNumbers>(NumberKind::f32, std::size_t{states} * width, chance);
    auto out = std::make_shared<DeviceNumbers>(NumberKind::f32, std::size_t{states} * rows);
    auto block_list = std::make_shared<DeviceList<ReadoutBlock>>(blocks);
    auto numbers = std::make_shared<DeviceList<std::uint32_t>>(lists);
    return PreparedWork{
        .run =
            [=, count = static_cast<std::uint32_t>(blocks.size())](Stream& s) {
              read_out(
                  HalfFormat::bf16,
                  {block_list->get(), count, width, numbers->get(), output->half(), in->f32(), out->f32()},
                  s);
            },
        .outputs = {out},
        .checks = std::size_t{states} * rows,
        .check =
            [=](std::size_t n) {
              const std::size_t state = n / rows, row = lists[n % rows];
              const double want = dot(in->read(state * width, width), output->read(row * width, width));
              return CheckedSample{out->read(n, 1), {want}, {product_bound(width, want, false)}};
            }};
  };
  return work;
}

}  // namespace

void add_product_works(const BenchShape& shape, std::vector<BenchWork>& works) {
  const std::uint32_t q = shape.heads * shape.head_dim(), kv = shape.kv_heads * shape.head_dim();
  for (const std::uint32_t rows : {shape.suffix, shape.few_rows}) {
    works.push_back(product_work(rows, shape.hidden, q + 2 * kv, ProductOut::f32));
    works.push_back(product_work(rows, q, shape.hidden, ProductOut::add_f32));
    works.push_back(product_work(rows, shape.hidden, 2 * shape.intermediate, ProductOut::half));
    works.push_back(product_work(rows, shape.intermediate, shape.hidden, ProductOut::add_f32));
  }
  works.push_back(readout_work(shape, shape.candidates, 2));
  works.push_back(readout_work(shape, 1, shape.vocabulary));
}

}  // namespace troupe::kernels::cuda
