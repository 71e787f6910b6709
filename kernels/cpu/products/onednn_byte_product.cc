// Multiplies unsigned by signed bytes with oneDNN, for any number of rows. It keeps a oneDNN
// primitive per number of rows, because one for any number would be many times slower.
#ifdef TROUPE_WITH_ONEDNN
#include "kernels/cpu/products/onednn_byte_product.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/cpu/products/onednn_engine.h"

namespace troupe::kernels {
namespace {

using dnnl::matmul;
using dnnl::memory;

constexpr std::size_t exact_max = 128;    // every number of rows up to this has its own primitive
constexpr std::size_t layout_rows = 256;  // the number of rows for which oneDNN picks the packed layout
constexpr std::size_t step_count = exact_max + 1;

// step_rows returns the rows of the next step of a product of `m` rows; step_index returns the
// index of its primitive.
std::size_t step_rows(std::size_t m) { return m >= 256 ? 256 : std::min(m, exact_max); }
std::size_t step_index(std::size_t rows) { return rows == 256 ? exact_max : rows - 1; }

// Working memory of the primitives (some hundred bytes to some ten thousand), at least `bytes`, of this
// thread.
void* thread_scratch(std::size_t bytes) {
  thread_local std::vector<std::byte> scratch;
  if (scratch.size() < bytes) scratch.resize(bytes);
  return scratch.data();
}

memory::desc dense(std::size_t rows, std::size_t columns, memory::data_type type) {
  return {{static_cast<memory::dim>(rows), static_cast<memory::dim>(columns)}, type, memory::format_tag::ab};
}

// Memory arguments of a running product. Making one costs allocations, so they are kept and pointed
// at new memory.
struct Arguments {
  memory in, out, scratch;
};

// The product for one number of input rows, ready to run.
class Step {
 public:
  explicit Step(const matmul::primitive_desc& described) : described_(described), product_(described) {}

  void run(const void* in, const memory& weight, void* out) const {
    std::unique_ptr<Arguments> own = take();
    own->in.set_data_handle(const_cast<void*>(in));
    own->out.set_data_handle(out);
    own->scratch.set_data_handle(thread_scratch(own->scratch.get_desc().get_size()));
    const std::array<dnnl_exec_arg_t, 4> list = {{{DNNL_ARG_SRC, own->in.get()},
                                                  {DNNL_ARG_WEIGHTS, weight.get()},
                                                  {DNNL_ARG_DST, own->out.get()},
                                                  {DNNL_ARG_SCRATCHPAD, own->scratch.get()}}};
    const auto status = dnnl_primitive_execute(product_.get(), onednn_stream().get(),
                                               static_cast<int>(list.size()), list.data());
    TROUPE_CHECK(status == dnnl_success, "oneDNN: a primitive that it made must run");
    const std::lock_guard lock(keeping_);
    kept_.push_back(std::move(own));
  }

 private:
  std::unique_ptr<Arguments> take() const {
    {
      const std::lock_guard lock(keeping_);
      if (!kept_.empty()) {
        std::unique_ptr<Arguments> last = std::move(kept_.back());
        kept_.pop_back();
        return last;
      }
    }
    const auto unset = [](const memory::desc& desc) {
      return memory(desc, onednn_engine(), DNNL_MEMORY_NONE);
    };
    return std::make_unique<Arguments>(Arguments{unset(described_.src_desc()), unset(described_.dst_desc()),
                                                 unset(described_.scratchpad_desc())});
  }

  matmul::primitive_desc described_;
  matmul product_;
  mutable std::mutex keeping_;
  mutable std::vector<std::unique_ptr<Arguments>> kept_;  // as many as have run concurrently
};

}  // namespace

// The primitives of one shape, for all weights.
class OnednnByteProduct::Steps {
 public:
  // Returns the primitives of this shape, which are shared while any product uses them.
  static std::shared_ptr<Steps> of(const ByteProductShape& shape) {
    static std::mutex finding;
    static std::map<ByteProductShape, std::weak_ptr<Steps>> known;
    const std::lock_guard lock(finding);
    std::weak_ptr<Steps>& place = known[shape];
    std::shared_ptr<Steps> steps = place.lock();
    if (!steps) place = steps = std::make_shared<Steps>(shape);
    return steps;
  }

  explicit Steps(const ByteProductShape& shape) : shape_(shape) {
    const memory::desc any({shape.columns, shape.rows}, memory::data_type::s8, memory::format_tag::any);
    layout_ = describe(layout_rows, any).weights_desc();
  }

  const memory::desc& layout() const { return layout_; }
  const ByteProductShape& shape() const { return shape_; }

  const Step& step(std::size_t m) {
    std::atomic<const Step*>& place = ready_[step_index(m)];
    if (const Step* made = place.load(std::memory_order_acquire)) return *made;
    const std::lock_guard lock(making_);
    if (const Step* made = place.load(std::memory_order_relaxed)) return *made;
    steps_.push_back(std::make_unique<const Step>(describe(m, layout_)));
    place.store(steps_.back().get(), std::memory_order_release);
    return *steps_.back();
  }

 private:
  matmul::primitive_desc describe(std::size_t m, const memory::desc& weight) const {
    onednn_stream();  // for the threads of this thread's products
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const matmul::desc product(dense(m, shape_.columns, memory::data_type::u8), weight,
                               dense(m, shape_.rows, memory::data_type::s32));
    return {product, attributes, onednn_engine()};
  }

  ByteProductShape shape_;
  memory::desc layout_;
  std::mutex making_;  // held to add to `steps_`; running takes no lock
  std::vector<std::unique_ptr<const Step>> steps_;
  std::array<std::atomic<const Step*>, step_count> ready_ = {};  // null until first needed
};

OnednnByteProduct::OnednnByteProduct(ByteProductShape shape, const std::int8_t* weight)
    : steps_(Steps::of(shape)), weight_(steps_->layout(), onednn_engine()) {
  const memory::desc transposed({shape.columns, shape.rows}, memory::data_type::s8, memory::format_tag::ba);
  memory from(transposed, onednn_engine(), const_cast<std::int8_t*>(weight));
  dnnl::reorder(from, weight_).execute(onednn_stream(), from, weight_);
  onednn_stream().wait();
}

OnednnByteProduct::~OnednnByteProduct() = default;

void OnednnByteProduct::run(const std::uint8_t* in, float* out, std::size_t m) const {
  const ByteProductShape& shape = steps_->shape();
  while (m > 0) {
    const std::size_t rows = step_rows(m);
    steps_->step(rows).run(in, weight_, out);
    in += rows * shape.columns;
    out += rows * shape.rows;
    m -= rows;
  }
}

}  // namespace troupe::kernels
#endif
