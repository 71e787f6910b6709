// One dot product per named row, four sums in flight. Bytes moved: each row once; two operations per element,
// so memory sets the pace and the rows of a request's candidates are all that is read.
#include "kernels/cpu/decoder_readout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/decoder_readout.cc"
#include <hwy/foreach_target.h>  // before anything of Highway's

#include <hwy/contrib/dot/dot-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels {
namespace HWY_NAMESPACE {

void dot_rows(const float* state, const float* output, std::size_t columns, std::span<const Token> which,
              float* out) {
  const hwy::HWY_NAMESPACE::ScalableTag<float> lanes;
  for (std::size_t i = 0; i < which.size(); ++i) {
    const float* row = output + static_cast<std::size_t>(which[i]) * columns;
    out[i] = hwy::HWY_NAMESPACE::Dot::Compute<0>(lanes, state, row, columns);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(dot_rows);

void dot_rows(const float* state, const Matrix& output, std::span<const Token> which, float* out) {
  HWY_DYNAMIC_DISPATCH(dot_rows)(state, output.values.data(), output.columns, which, out);
}

}  // namespace troupe::kernels
#endif
