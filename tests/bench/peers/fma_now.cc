// Prints the present multiply-add rate of a thread on this machine, in GFLOP/s, for drivers that are not C++.
// Usage: fma_now [THREADS]
#include <cstdio>
#include <cstdlib>

#include "kernels/cpu/products/fma_rate.h"

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::atoi(arguments[1]) : 1;
  if (threads < 1) return 2;
  std::printf("%.1f\n", troupe::kernels::fma_rate_together(static_cast<unsigned>(threads)) * 1e-9);
}
