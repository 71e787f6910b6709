#pragma once
// Declares the asynchronous part of the emulator: mbarriers, bulk copies, named barriers, and products of
// warpgroups (simt_hopper.h). Asynchronous operations see shared memory as the asynchronous proxy does: a
// thread's writes are visible only after its fence_async(). A bulk copy lands when its mbarrier's phase
// ends, a product at its wait. Until then their destinations are NaN, and neither a product's inputs nor its
// outputs may be accessed.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "kernels/cuda/simt/emulator.h"

namespace troupe::kernels::cuda::emulator {

inline constexpr unsigned group_threads = 128;  // of a warpgroup

// A use before the required synchronization.
struct OrderFault : KernelFault {
  using KernelFault::KernelFault;
};
// A wait that never ends.
struct StuckFault : KernelFault {
  using KernelFault::KernelFault;
};

void fence_async();

void mbarrier_init(std::uint32_t at, unsigned arrivals);
void mbarrier_arrive(std::uint32_t at, unsigned bytes);  // announces `bytes` more of bulk copies
void mbarrier_wait(std::uint32_t at, unsigned parity);
void copy_bulk(std::uint32_t to, const void* from, std::size_t bytes, std::uint32_t mbarrier);

// Arrives at a named barrier; waits for the other threads, or continues.
void sync_named(unsigned barrier, unsigned threads, bool wait);

// Returns after all threads of the warpgroup arrived with the same operation and it ran on their operands.
void sync_group(const WarpOperation& operation, void* operands);

// A thread's operands of a product: its parts of the sums and of A, and the values that all threads share.
struct ProductPart {
  float* d;
  const std::uint32_t* a;
  std::uint64_t b;
  bool accumulate;
};
struct ProductForm {
  unsigned columns;               // n
  bool rows_of_depth;             // a row of B in shared memory has one k; else one n
  float (*widen)(std::uint32_t);  // converts the low half
};
// Called within operations of a warpgroup.
void start_product(const ProductForm& form, void* const* parts);
void group_fence();
void group_commit();
void group_wait(unsigned groups_left);

// State of a block.

struct BulkCopy {
  std::uint32_t to;
  const void* from;
  std::size_t bytes;
};
struct Mbarrier {
  unsigned arrivals = 0, missing = 0;
  std::int64_t missing_bytes = 0;
  unsigned phase = 0;
  unsigned made_by = 0;          // thread
  std::uint64_t made_after = 0;  // barriers of the launch
  bool fenced = false;
  std::vector<BulkCopy> copies;
};
struct NamedBarrier {
  unsigned threads = 0, came = 0;
};
struct Sums {
  std::array<float*, group_threads> at;
  unsigned columns, in_flight;
  std::vector<float> values;  // [64][columns]
};
struct GroupProduct {
  unsigned group;
  std::size_t sums;
  ProductForm form;
  std::uint64_t b_at;
  bool accumulate;
  std::array<const std::uint32_t*, group_threads> a_at;
  std::array<std::array<std::uint32_t, 4>, group_threads> a;
  std::vector<std::uint16_t> b;  // [16][columns]
};
struct Warpgroup {
  bool fenced = false;
  unsigned group = 0;
  std::vector<GroupProduct> products;
  std::vector<Sums> sums;
};
struct AsyncState {
  std::vector<std::byte> view;  // shared memory as the asynchronous proxy sees it; empty: unused so far
  std::map<std::uint32_t, Mbarrier> mbarriers;
  std::array<NamedBarrier, 16> named;
  std::array<Warpgroup, 8> groups;
};
std::byte* async_view();  // returns its first byte
// Reports a fault if an operation is still in flight or incomplete.
void check_async_ended();

}  // namespace troupe::kernels::cuda::emulator
