#pragma once
// The instruction sets that the vector kernels are compiled for, and macros that make a table of
// versions. Each kernel's .cc is compiled once per target by Highway's foreach_target.h; include
// this header before it. SVE and RISC-V are left out because their vectors have no size at compile
// time and cannot be in arrays, SSSE3 because every machine with it worth serving on has SSE4; the
// scalar fallback is the reference version. AVX3_DL (Ice Lake) adds integer instructions only, so
// it would be a second copy of AVX-512 in float32.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include "hwy/detect_targets.h"

#if HWY_TARGETS & HWY_AVX3
#define TROUPE_AVX512(entry) entry("avx512", N_AVX3, HWY_AVX3)
#else
#define TROUPE_AVX512(entry)
#endif
#if HWY_TARGETS & HWY_AVX2
#define TROUPE_AVX2(entry) entry("avx2", N_AVX2, HWY_AVX2)
#else
#define TROUPE_AVX2(entry)
#endif
#if HWY_TARGETS & HWY_SSE4
#define TROUPE_SSE4(entry) entry("sse4", N_SSE4, HWY_SSE4)
#else
#define TROUPE_SSE4(entry)
#endif
#if HWY_TARGETS & HWY_NEON
#define TROUPE_NEON(entry) entry("neon", N_NEON, HWY_NEON)
#else
#define TROUPE_NEON(entry)
#endif

// Expands entry(name, namespace, target bit) for every target that is compiled, best first.
#define TROUPE_TARGETS(entry) TROUPE_AVX512(entry) TROUPE_AVX2(entry) TROUPE_SSE4(entry) TROUPE_NEON(entry)

// True if the target of this pass has vectors at all; the reference versions cover the scalar ones.
#define TROUPE_VECTOR_TARGET (HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR)
