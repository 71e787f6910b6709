#pragma once
// Measures the peak rate of this core at the moment: float32 fused multiply-adds on 12 independent
// chains of registers, enough to cover their latency, without touching memory. A neighbour on the
// physical core can halve it from one second to the next. So benchmarks sample it beside every
// figure and quote the share of it that they reached.
#include <array>
#include <string_view>

#include "kernels/base/number_formats.h"

namespace troupe::kernels {

// Returns operations (two per multiply-add) per second of the calling thread's CPU time, over about
// 2 ms. `version` names an instruction set as attend_versions() does: "avx512" measures AVX-512,
// and every other name AVX2. NaN if this CPU does not have it, or on an architecture other than
// x86-64.
double fma_rate(std::string_view version);

// Returns the instruction set with the widest vectors that this CPU has: "avx512", else "avx2";
// "none" if fma_rate supports neither.
std::string_view widest_fma();

// Returns the mean of fma_rate(widest_fma()) on `threads` (at least one) concurrent threads;
// threads on one core share its units.
double fma_rate_together(unsigned threads);

// Returns the instruction by which this CPU multiplies such weights fastest: "vdpbf16ps zmm". bf16 weights
// are widened to float32 where AVX512_BF16 is missing; bytes need VNNI, or three instructions of AVX2.
// "none" on an architecture other than x86-64.
std::string_view widest_multiply_add(WeightFormat format);

// Peak rates of this CPU by number format, in operations (two per multiply-add) per CPU-second.
struct MultiplyAddRates {
  std::array<double, weight_format_names.size()> by_format{};

  double of(WeightFormat format) const { return by_format[static_cast<std::size_t>(format)]; }
  double f32() const { return of(WeightFormat::f32); }
};

// Samples widest_multiply_add of each format, about 2 ms each, on `threads` (at least one) concurrent
// threads, and returns the mean of the threads. NaN where a format cannot be sampled.
MultiplyAddRates multiply_add_rates(unsigned threads);

}  // namespace troupe::kernels
