#pragma once
// What this core does right now at its best: float32 fused multiply-adds on 12 independent chains of
// registers, enough to cover their latency, without touching memory. A neighbour on the physical core can
// halve it from one second to the next, so benchmarks sample it beside every figure and quote the share of it
// that they reached.
#include <string_view>

namespace troupe::kernels {

// Operations (two per multiply-add) per second of the calling thread's CPU time, over about 2 ms. `version`
// names an instruction set as attend_versions() does: "avx512", and AVX2 for every other. NaN where this CPU
// has none of it, or on an architecture other than x86-64.
double fma_rate(std::string_view version);

// The instruction set above with the widest vectors that this CPU has: "avx512", else "avx2"; "none" where
// fma_rate knows none.
std::string_view widest_fma();

// The mean of fma_rate(widest_fma()) on `threads` (at least one) threads at the same time: two that share a
// core's units each get their part.
double fma_rate_together(unsigned threads);

}  // namespace troupe::kernels
