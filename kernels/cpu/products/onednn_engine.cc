// Sets up oneDNN once for the process: the instruction sets it may use, one engine, and a stream
// per thread.
#ifdef TROUPE_WITH_ONEDNN
#include "kernels/cpu/products/onednn_engine.h"

#include <omp.h>
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

// oneDNN 2.6 trusts the CPU's AMX bit and dies of an illegal instruction if AMX does not work. That
// happens if a virtual machine shows the bit but no tile palette (CPUID leaf 1DH), or if Linux was
// not asked for the tiles' registers. So this function asks Linux, and disables AMX where it cannot
// work. Products of bytes then fall back to VNNI.
void set_instruction_sets() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr unsigned amx_tile_bit = 1u << 24;
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & amx_tile_bit) == 0) return;
  const bool palette = __get_cpuid_count(0x1d, 0, &a, &b, &c, &d) && a > 0;
  if (palette && syscall(SYS_arch_prctl, request_permission, tile_data) == 0) return;
  const auto status = dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
  TROUPE_CHECK(status == dnnl_success, "oneDNN: instruction sets must be set before its first use");
#endif
}

}  // namespace

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine = [] {
    set_instruction_sets();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

dnnl::stream& onednn_stream() {
  // oneDNN is built on OpenMP, whose number of threads is a setting of each calling thread.
  thread_local dnnl::stream stream = [] {
    omp_set_num_threads(1);
    return dnnl::stream(onednn_engine());
  }();
  return stream;
}

bool onednn_has_vnni() {
  onednn_engine();
  constexpr unsigned vnni = dnnl_cpu_isa_avx512_core_vnni;  // ISA values are sets of bits
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & vnni) == vnni;
}

}  // namespace troupe::kernels
#endif
