// Linear by oneDNN. The idea: the packed layout that oneDNN 2.6 picks for a weight is the same for every
// number of input rows, so it is packed once; but a primitive must know its number of rows (one with that
// left open takes a path that is many times slower). So there is a primitive for each of 1..128, 256 and 512
// rows, made when first needed (0.2 ms, once per shape and process), and a product runs in steps of these
// sizes, the last one exact: a remainder cut into 8+4+2+1 would read the weight four times. Bytes moved: the
// weight once per step, input and output once. The bias rides along; measured, it costs nothing.
#ifdef TROUPE_WITH_ONEDNN
#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "kernels/check.h"
#include "kernels/linear.h"

namespace troupe::kernels {
namespace {

using dnnl::matmul;
using dnnl::memory;

constexpr std::size_t exact_max = 128;    // every number of rows up to this has its own primitive
constexpr std::size_t layout_rows = 256;  // the number of rows for which oneDNN picks the packed layout
constexpr std::size_t step_count = exact_max + 2;

// The rows of the next step of a product of `m` rows, and the place of that step's primitive in the table.
std::size_t step_rows(std::size_t m) { return m >= 512 ? 512 : m >= 256 ? 256 : std::min(m, exact_max); }
std::size_t step_index(std::size_t rows) {
  return rows == 512 ? exact_max + 1 : rows == 256 ? exact_max : rows - 1;
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// oneDNN is built on OpenMP, whose number of threads is a setting of each thread that calls it.
void stay_on_this_thread() {
  thread_local const bool done = [] {
    omp_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

dnnl::stream& thread_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

// Working memory of the primitives (some hundred bytes), at least `bytes`, of this thread.
void* thread_scratch(std::size_t bytes) {
  thread_local std::vector<std::byte> scratch;
  if (scratch.size() < bytes) scratch.resize(bytes);
  return scratch.data();
}

memory::desc dense(std::size_t rows, std::size_t columns) {
  return {{static_cast<memory::dim>(rows), static_cast<memory::dim>(columns)},
          memory::data_type::f32,
          memory::format_tag::ab};
}

}  // namespace

struct Linear::Packed {
  // The product for one number of input rows, ready to run.
  struct Step {
    matmul product;
    memory::desc in, out, scratch;
  };

  std::uint32_t rows = 0, columns = 0;
  memory weight, bias;  // bias: empty without one
  std::mutex making;    // held to add to `steps`; running takes no lock
  std::vector<std::unique_ptr<const Step>> steps;
  std::array<std::atomic<const Step*>, step_count> ready = {};  // null until first needed

  Packed(Matrix plain, const std::vector<float>& plain_bias) : rows(plain.rows), columns(plain.columns) {
    stay_on_this_thread();
    if (!plain_bias.empty()) {
      bias = memory(dense(1, rows), cpu_engine());
      std::copy(plain_bias.begin(), plain_bias.end(), static_cast<float*>(bias.get_data_handle()));
    }
    const memory::desc any({columns, rows}, memory::data_type::f32, memory::format_tag::any);
    pack(plain, describe(layout_rows, any).weights_desc());
  }

  const Step& step(std::size_t m) {
    std::atomic<const Step*>& place = ready[step_index(m)];
    if (const Step* made = place.load(std::memory_order_acquire)) return *made;
    const std::lock_guard lock(making);
    if (const Step* made = place.load(std::memory_order_relaxed)) return *made;
    const auto described = describe(m, weight.get_desc());
    steps.push_back(std::make_unique<const Step>(
        Step{matmul(described), described.src_desc(), described.dst_desc(), described.scratchpad_desc()}));
    place.store(steps.back().get(), std::memory_order_release);
    return *steps.back();
  }

  matmul::primitive_desc describe(std::size_t m, const memory::desc& weight_layout) const {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const memory::desc in = dense(m, columns), out = dense(m, rows);
    const auto shape =
        bias ? matmul::desc(in, weight_layout, dense(1, rows), out) : matmul::desc(in, weight_layout, out);
    return {shape, attributes, cpu_engine()};
  }

  void pack(Matrix& plain, const memory::desc& layout) {
    const memory::desc transposed({columns, rows}, memory::data_type::f32, memory::format_tag::ba);
    memory from(transposed, cpu_engine(), plain.values.data());
    weight = memory(layout, cpu_engine());
    dnnl::reorder(from, weight).execute(thread_stream(), from, weight);
    thread_stream().wait();
  }

  void run(const Step& step, const float* in, float* out) const {
    std::unordered_map<int, memory> arguments = {
        {DNNL_ARG_SRC, memory(step.in, cpu_engine(), const_cast<float*>(in))},
        {DNNL_ARG_WEIGHTS, weight},
        {DNNL_ARG_DST, memory(step.out, cpu_engine(), out)},
        {DNNL_ARG_SCRATCHPAD, memory(step.scratch, cpu_engine(), thread_scratch(step.scratch.get_size()))}};
    if (bias) arguments.emplace(DNNL_ARG_BIAS, bias);
    step.product.execute(thread_stream(), arguments);
  }
};

Linear::Linear(Matrix weight, std::vector<float> bias, WeightFormat format) {
  TROUPE_CHECK(format == WeightFormat::f32, "float32 weights");
  TROUPE_CHECK(weight.rows > 0 && weight.columns > 0, "a linear layer has rows and columns");
  TROUPE_CHECK(weight.values.size() == std::size_t{weight.rows} * weight.columns,
               "the weight is rows × columns");
  TROUPE_CHECK(bias.empty() || bias.size() == weight.rows, "one bias per output row, or none");
  packed_ = std::make_unique<Packed>(std::move(weight), bias);
}

Linear::Linear(Linear&&) noexcept = default;
Linear& Linear::operator=(Linear&&) noexcept = default;
Linear::~Linear() = default;

std::uint32_t Linear::rows() const { return packed_->rows; }
std::uint32_t Linear::columns() const { return packed_->columns; }

void Linear::run(const float* in, float* out, std::size_t m) const {
  stay_on_this_thread();
  while (m > 0) {
    const std::size_t rows = step_rows(m);
    packed_->run(packed_->step(rows), in, out);
    in += rows * packed_->columns;
    out += rows * packed_->rows;
    m -= rows;
  }
}

}  // namespace troupe::kernels
#endif
