// Measures how many float32 multiply-adds per second this core reaches now, without touching
// memory. Benchmarks report their results as a share of it.
#include "kernels/cpu/products/fma_rate.h"

#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/base/thread_clock.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace troupe::kernels {

#if defined(__x86_64__)
namespace {

constexpr int chains = 12, steps = 400000;

__attribute__((target("avx512f"))) double rate_avx512() {
  __m512 sum[chains], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (auto& s : sum) s = b;
  const double start = thread_cpu_seconds();
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sum[c] = _mm512_fmadd_ps(sum[c], a, b);
  }
  const double seconds = thread_cpu_seconds() - start;
  for (auto& s : sum) asm volatile("" ::"v"(s));
  return 2.0 * 16 * chains * steps / seconds;
}

__attribute__((target("avx2,fma"))) double rate_avx2() {
  __m256 sum[chains], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (auto& s : sum) s = b;
  const double start = thread_cpu_seconds();
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sum[c] = _mm256_fmadd_ps(sum[c], a, b);
  }
  const double seconds = thread_cpu_seconds() - start;
  for (auto& s : sum) asm volatile("" ::"x"(s));
  return 2.0 * 8 * chains * steps / seconds;
}

}  // namespace

double fma_rate(std::string_view version) {
  if (version == "avx512" && __builtin_cpu_supports("avx512f")) return rate_avx512();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return avx2 && version != "avx512" ? rate_avx2() : std::numeric_limits<double>::quiet_NaN();
}

std::string_view widest_fma() { return __builtin_cpu_supports("avx512f") ? "avx512" : "avx2"; }
#else
double fma_rate(std::string_view) { return std::numeric_limits<double>::quiet_NaN(); }

std::string_view widest_fma() { return "none"; }
#endif

double fma_rate_together(unsigned threads) {
  TROUPE_CHECK(threads > 0, "fma rate: expected at least one thread");
  std::vector<double> rates(threads, std::numeric_limits<double>::quiet_NaN());
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i)
    others.emplace_back([&rates, i] { rates[i] = fma_rate(widest_fma()); });
  rates[0] = fma_rate(widest_fma());
  for (std::thread& other : others) other.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0) / threads;
}

}  // namespace troupe::kernels
