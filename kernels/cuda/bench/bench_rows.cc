// Benchmarks kernels between matrix products, which work on dense rows.
#include <cmath>

#include "kernels/cuda/bench/bench_work.h"
#include "kernels/cuda/kernels/decoder_kernels.h"

namespace troupe::kernels::cuda {
namespace {

constexpr double half_step = 0x1p-8;     // of bf16, relative
constexpr double float_steps = 0x1p-18;  // of a few hundred float32 operations and fast functions
constexpr float epsilon = 1e-6f;

std::string rows_text(std::uint32_t rows, std::uint32_t width) {
  return std::to_string(rows) + " x " + std::to_string(width);
}

Cost memory_cost(double bytes) { return {CostKind::memory, bytes, 0}; }

std::vector<double> bounds(const std::vector<double>& want, double relative) {
  std::vector<double> all;
  for (const double number : want) all.push_back(std::abs(number) * relative + 1e-6);
  return all;
}

double silu(double gate) { return gate / (1 + std::exp(-gate)); }

// Returns the row divided by its root mean square, times the weight.
std::vector<double> normed(const std::vector<double>& in, const std::vector<double>& weight) {
  double squares = 0;
  for (const double x : in) squares += x * x;
  const double factor = 1 / std::sqrt(squares / static_cast<double>(in.size()) + epsilon);
  std::vector<double> out;
  for (std::size_t i = 0; i < in.size(); ++i) out.push_back(in[i] * factor * weight[i]);
  return out;
}

BenchWork embed_work(const BenchShape& shape, std::uint32_t rows) {
  const std::uint32_t width = shape.hidden, vocabulary = shape.vocabulary;
  BenchWork work{
      .kernel = "embed", .shape = rows_text(rows, width), .steps = {memory_cost(6.0 * rows * width)}};
  work.prepare = [=](Chance& chance) {
    auto table = std::make_shared<DeviceNumbers>(NumberKind::bf16, std::size_t{vocabulary} * width, chance);
    auto out = std::make_shared<DeviceNumbers>(NumberKind::f32, std::size_t{rows} * width);
    std::vector<std::uint32_t> tokens(rows);
    for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(chance() % vocabulary);
    auto list = std::make_shared<DeviceList<std::uint32_t>>(tokens);
    return PreparedWork{.run =
                            [=](Stream& s) {
                              embed(HalfFormat::bf16, table->half(), list->get(), rows, width, out->f32(), s);
                            },
                        .outputs = {out},
                        .checks = rows,
                        .check =
                            [=](std::size_t row) {
                              return CheckedSample{out->read(row * width, width),
                                                   table->read(std::size_t{tokens[row]} * width, width),
                                                   {0}};
                            }};
  };
  return work;
}

BenchWork norm_half_work(const BenchShape& shape, std::uint32_t rows) {
  const std::uint32_t width = shape.hidden;
  BenchWork work{
      .kernel = "rms_norm_half", .shape = rows_text(rows, width), .steps = {memory_cost(6.0 * rows * width)}};
  work.prepare = [=](Chance& chance) {
    auto in = std::make_shared<DeviceNumbers>(NumberKind::f32, std::size_t{rows} * width, chance);
    auto weight = std::make_shared<DeviceNumbers>(NumberKind::f32, width, chance);
    auto out = std::make_shared<DeviceNumbers>(NumberKind::bf16, std::size_t{rows} * width);
    return PreparedWork{.run =
                            [=](Stream& s) {
                              rms_norm_half(HalfFormat::bf16, in->f32(), weight->f32(), epsilon, rows, width,
                                            out->half(), s);
                            },
                        .outputs = {out},
                        .checks = rows,
                        .check =
                            [=](std::size_t row) {
                              const auto want = normed(in->read(row * width, width), weight->read(0, width));
                              return CheckedSample{out->read(row * width, width), want,
                                                   bounds(want, half_step + float_steps)};
                            }};
  };
  return work;
}

BenchWork norm_work(const BenchShape& shape, std::uint32_t rows) {
  const std::uint32_t width = shape.hidden;
  BenchWork work{
      .kernel = "rms_norm", .shape = rows_text(rows, width), .steps = {memory_cost(8.0 * rows * width)}};
  work.prepare = [=](Chance& chance) {
    auto in = std::make_shared<DeviceNumbers>(NumberKind::f32, std::size_t{rows} * width, chance);
    auto weight = std::make_shared<DeviceNumbers>(NumberKind::f32, width, chance);
    auto out = std::make_shared<DeviceNumbers>(NumberKind::f32, std::size_t{rows} * width);
    return PreparedWork{
        .run = [=](Stream& s) { rms_norm(in->f32(), weight->f32(), epsilon, rows, width, out->f32(), s); },
        .outputs = {out},
        .checks = rows,
        .check =
            [=](std::size_t row) {
              const auto want = normed(in->read(row * width, width), weight->read(0, width));
              return CheckedSample{out->read(row * width, width), want, bounds(want, float_steps)};
            }};
  };
  return work;
}

BenchWork swiglu_work(const BenchShape& shape, std::uint32_t rows) {
  const std::uint32_t width = shape.intermediate;
  BenchWork work{
      .kernel = "swiglu_half", .shape = rows_text(rows, width), .steps = {memory_cost(6.0 * rows * width)}};
  work.prepare = [=](Chance& chance) {
    auto in = std::make_shared<DeviceNumbers>(NumberKind::bf16, std::size_t{rows} * width * 2, chance);
    auto out = std::make_shared<DeviceNumbers>(NumberKind::bf16, std::size_t{rows} * width);
    return PreparedWork{
        .run = [=](Stream& s) { swiglu_half(HalfFormat::bf16, in->half(), rows, width, out->half(), s); },
        .outputs = {out},
        .checks = rows,
        .check =
            [=](std::size_t row) {
              const auto both = in->read(row * 2 * width, 2 * width);
              std::vector<double> want;
              for (std::size_t i = 0; i < width; ++i) want.push_back(silu(both[i]) * both[width + i]);
              return CheckedSample{out->read(row * width, width), want,
                                   bounds(want, half_step + float_steps)};
            }};
  };
  return work;
}

BenchWork pick_work(const BenchShape& shape, std::uint32_t count, std::uint32_t rows) {
  const std::uint32_t width = shape.hidden, query_width = shape.heads * shape.head_dim();
  BenchWork work{.kernel = "pick_rows",
                 .shape = std::to_string(count) + " of " + rows_text(rows, width + query_width),
                 .steps = {memory_cost(2.0 * count * (4.0 * width + 2.0 * query_width))}};
  work.prepare = [=](Chance& chance) {
    auto states = std::make_shared<DeviceNumbers>(NumberKind::f32, std::size_t{rows} * width, chance);
    auto queries = std::make_shared<DeviceNumbers>(NumberKind::bf16, std::size_t{rows} * query_width, chance);
    auto state_out = std::make_shared<DeviceNumbers>(NumberKind::f32, std::size_t{count} * width);
    auto query_out = std::make_shared<DeviceNumbers>(NumberKind::bf16, std::size_t{count} * query_width);
    std::vector<std::uint32_t> picked(count);
    for (std::uint32_t& row : picked) row = static_cast<std::uint32_t>(chance() % rows);
    auto list = std::make_shared<DeviceList<std::uint32_t>>(picked);
    return PreparedWork{.run =
                            [=](Stream& s) {
                              gather_rows({list->get(), count, width, query_width, states->f32(),
                                           queries->half(), state_out->f32(), query_out->half()},
                                          s);
                            },
                        .outputs = {state_out, query_out},
                        .checks = count,
                        .check =
                            [=](std::size_t i) {
                              CheckedSample both{state_out->read(i * width, width),
                                                 states->read(std::size_t{picked[i]} * width, width),
                                                 {0}};
                              const auto got = query_out->read(i * query_width, query_width),
                                         want =
                                             queries->read(std::size_t{picked[i]} * query_width, query_width);
                              both.got.insert(both.got.end(), got.begin(), got.end());
                              both.want.insert(both.want.end(), want.begin(), want.end());
                              return both;
                            }};
  };
  return work;
}

}  // namespace

std::vector<std::uint32_t> row_counts(const BenchShape& shape) { return {shape.suffix, shape.many_rows}; }

void add_row_works(const BenchShape& shape, std::vector<BenchWork>& works) {
  for (const std::uint32_t rows : row_counts(shape)) {
    works.push_back(embed_work(shape, rows));
    works.push_back(norm_half_work(shape, rows));
    works.push_back(swiglu_work(shape, rows));
    works.push_back(norm_work(shape, rows));
  }
  works.push_back(pick_work(shape, shape.candidates, shape.suffix));
}

}  // namespace troupe::kernels::cuda
