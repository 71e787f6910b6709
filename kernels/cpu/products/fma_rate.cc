// Measures how many multiply-adds per second this core reaches now in float32, bf16 and int8, without
// touching memory. Benchmarks report their results as a share of it.
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

// Returns the multiply-adds and additions a second of `run`, which does `steps` steps of `chains` independent
// products of so many lanes.
double rate_of(int lanes, void (*run)()) {
  const double start = thread_cpu_seconds();
  run();
  return 2.0 * lanes * chains * steps / (thread_cpu_seconds() - start);
}

__attribute__((target("avx512f"))) void run_avx512() {
  __m512 sum[chains], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (auto& s : sum) s = b;
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sum[c] = _mm512_fmadd_ps(sum[c], a, b);
  }
  for (auto& s : sum) asm volatile("" ::"v"(s));
}

__attribute__((target("avx2,fma"))) void run_avx2() {
  __m256 sum[chains], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (auto& s : sum) s = b;
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sum[c] = _mm256_fmadd_ps(sum[c], a, b);
  }
  for (auto& s : sum) asm volatile("" ::"x"(s));
}

// The sums of the byte products wrap around, which does not change their time.
__attribute__((target("avx512f,avx512bf16"))) void run_pairs_avx512() {
  const __m512i ones = _mm512_set1_epi16(0x3f80);
  __m512 sum[chains];
  for (auto& s : sum) s = _mm512_setzero_ps();
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sum[c] = _mm512_dpbf16_ps(sum[c], (__m512bh)ones, (__m512bh)ones);
  }
  for (auto& s : sum) asm volatile("" ::"v"(s));
}

__attribute__((target("avx512f,avx512vnni"))) void run_bytes_avx512() {
  __m512i sum[chains];
  for (auto& s : sum) s = _mm512_setzero_si512();
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c)
      sum[c] = _mm512_dpbusd_epi32(sum[c], _mm512_set1_epi8(1), _mm512_set1_epi8(1));
  }
  for (auto& s : sum) asm volatile("" ::"v"(s));
}

__attribute__((target("avx2,avxvnni"))) void run_bytes_avx_vnni() {
  __m256i sum[chains];
  for (auto& s : sum) s = _mm256_setzero_si256();
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c)
      sum[c] = _mm256_dpbusd_avx_epi32(sum[c], _mm256_set1_epi8(1), _mm256_set1_epi8(1));
  }
  for (auto& s : sum) asm volatile("" ::"x"(s));
}

// The operand of each product is hidden from the compiler, which would compute the products once.
__attribute__((target("avx2"))) void run_bytes_avx2() {
  const __m256i words = _mm256_set1_epi16(1);
  __m256i sum[chains], bytes = _mm256_set1_epi8(1);
  for (auto& s : sum) s = _mm256_setzero_si256();
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) {
      asm("" : "+x"(bytes));
      sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(_mm256_maddubs_epi16(bytes, bytes), words));
    }
  }
  for (auto& s : sum) asm volatile("" ::"x"(s));
}

double rate_pairs_avx512() { return rate_of(32, &run_pairs_avx512); }
double rate_bytes_avx512() { return rate_of(64, &run_bytes_avx512); }
double rate_bytes_avx_vnni() { return rate_of(32, &run_bytes_avx_vnni); }
double rate_bytes_avx2() { return rate_of(32, &run_bytes_avx2); }
double rate_fma() { return fma_rate(widest_fma()); }

struct Sampler {
  std::string_view instruction;
  double (*run)();
};

Sampler sampler_of(WeightFormat format) {
  const bool avx512 = __builtin_cpu_supports("avx512f");
  if (format == WeightFormat::bf16 && avx512 && __builtin_cpu_supports("avx512bf16"))
    return {"vdpbf16ps zmm", &rate_pairs_avx512};
  if (format != WeightFormat::int8) return {avx512 ? "vfmadd zmm" : "vfmadd ymm", &rate_fma};
  if (avx512 && __builtin_cpu_supports("avx512vnni")) return {"vpdpbusd zmm", &rate_bytes_avx512};
  if (__builtin_cpu_supports("avxvnni")) return {"vpdpbusd ymm", &rate_bytes_avx_vnni};
  if (__builtin_cpu_supports("avx2")) return {"vpmaddubsw ymm", &rate_bytes_avx2};
  return {"none", &rate_fma};
}

}  // namespace

double fma_rate(std::string_view version) {
  if (version == "avx512" && __builtin_cpu_supports("avx512f")) return rate_of(16, &run_avx512);
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return avx2 && version != "avx512" ? rate_of(8, &run_avx2) : std::numeric_limits<double>::quiet_NaN();
}

std::string_view widest_fma() { return __builtin_cpu_supports("avx512f") ? "avx512" : "avx2"; }

std::string_view widest_multiply_add(WeightFormat format) { return sampler_of(format).instruction; }

namespace {
double rate_of(WeightFormat format) { return sampler_of(format).run(); }
}  // namespace
#else
double fma_rate(std::string_view) { return std::numeric_limits<double>::quiet_NaN(); }

std::string_view widest_fma() { return "none"; }

std::string_view widest_multiply_add(WeightFormat) { return "none"; }

namespace {
double rate_of(WeightFormat) { return std::numeric_limits<double>::quiet_NaN(); }
}  // namespace
#endif

namespace {

// Returns the mean of sample() over `threads` concurrent threads, of which the caller is one.
template <class Sample>
double mean_of_threads(unsigned threads, Sample sample) {
  TROUPE_CHECK(threads > 0, "fma rate: expected at least one thread");
  std::vector<double> rates(threads, std::numeric_limits<double>::quiet_NaN());
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back([&rates, &sample, i] { rates[i] = sample(); });
  rates[0] = sample();
  for (std::thread& other : others) other.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0) / threads;
}

}  // namespace

double fma_rate_together(unsigned threads) {
  return mean_of_threads(threads, [] { return fma_rate(widest_fma()); });
}

MultiplyAddRates multiply_add_rates(unsigned threads) {
  MultiplyAddRates rates;
  for (std::size_t f = 0; f < rates.by_format.size(); ++f)
    rates.by_format[f] = mean_of_threads(threads, [f] { return rate_of(static_cast<WeightFormat>(f)); });
  return rates;
}

}  // namespace troupe::kernels
