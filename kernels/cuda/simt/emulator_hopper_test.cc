// Tests the primitives of simt_hopper.h on the emulator.
#include "kernels/cuda/simt/simt_hopper.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/base/float_formats.h"
#include "kernels/cuda/simt/device_emulated.h"
#include "kernels/cuda/testing/device_test.h"

using namespace troupe::kernels::cuda;
using namespace troupe::kernels::cuda::simt;

namespace {

template <class Body>
void run(const LaunchShape& shape, const Body& body) {
  emulator::run({"probe", shape.blocks, shape.blocks_y, shape.threads, shape.shared_bytes}, [&] { body(); });
}

template <class Fault, class Body>
std::string fault_of(const LaunchShape& shape, const Body& body) {
  try {
    run(shape, body);
  } catch (const Fault& fault) {
    const std::string what = fault.what();
    const std::size_t begin = what.find("thread");
    return what.substr(begin, what.find(" (schedule seed") - begin);
  }
  return "";
}

constexpr LaunchShape one_group{.threads = group_threads, .shared_bytes = 48 * 1024};

// Returns the index of number (row, column) in a matrix of `row_count` rows: blocks of 64 columns,
// swizzled.
unsigned place(unsigned row, unsigned column, unsigned row_count) {
  const unsigned chunk = column % 64 / 8 ^ row % 8;
  return column / 64 * row_count * 64 + row * 64 + chunk * 8 + column % 8;
}

// Writes `numbers` ([row][column]) as a matrix at byte `at`.
template <class Half>
void store(const std::vector<float>& numbers, unsigned rows, std::size_t at) {
  const auto to = dynamic_shared<std::uint16_t>(at, numbers.size());
  const unsigned columns = unsigned(numbers.size()) / rows;
  for (unsigned i = thread_x(); i < numbers.size(); i += block_threads())
    to[place(i / columns, i % columns, rows)] = std::uint16_t(pack<Half>(numbers[i], 0));
}

// Loads this thread's part of columns [16 * step, 16 * step + 16) of A, which has 64 rows.
template <class Half>
void load_a(const std::vector<float>& a, unsigned step, std::uint32_t (&fragment)[4]) {
  const unsigned depth = unsigned(a.size()) / 64;
  for (unsigned r = 0; r < 4; ++r) {
    const unsigned row = warp() % 4 * 16 + lane() / 4 + 8 * (r % 2);
    const float* const from = &a[row * depth + 16 * step + 2 * (lane() % 4) + 8 * (r / 2)];
    fragment[r] = pack<Half>(from[0], from[1]);
  }
}

std::vector<float> small_numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> numbers(count);
  for (float& x : numbers) x = float(int(random() % 17) - 8) / 4;  // exact in both formats
  return numbers;
}

// Checks a product of 64 x depth and depth x 8*tiles numbers, whose sums start at one.
template <class Half, Rows rows, unsigned tiles>
void check_product(unsigned depth) {
  constexpr unsigned columns = 8 * tiles;
  constexpr bool along_columns = rows == Rows::along_columns;
  const std::vector<float> a = small_numbers(64 * depth, 1), b = small_numbers(depth * columns, 2);
  std::vector<float> b_rows(b.size()), got(64 * columns, NAN);
  for (unsigned k = 0; k < depth; ++k)
    for (unsigned n = 0; n < columns; ++n)
      b_rows[along_columns ? k * columns + n : n * depth + k] = b[k * columns + n];
  run(one_group, [&] {
    store<Half>(b_rows, along_columns ? depth : columns, 2048);
    fence_async();
    barrier();
    float d[tiles][4];
    for (auto& tile : d)
      for (float& x : tile) x = 1;
    std::uint32_t fragments[8][4];
    for (unsigned step = 0; step < depth / 16; ++step) load_a<Half>(a, step, fragments[step]);
    group_fence();
    for (unsigned step = 0; step < depth / 16; ++step) {
      const unsigned start = along_columns ? 2048 * step : step / 4 * columns * 128 + step % 4 * 32;
      multiply_add_group<Half, rows>(d, fragments[step], part_of(group_matrix(2048, depth * 128), start),
                                     true);
    }
    group_commit();
    CHECK(std::isnan(d[0][0]));
    group_wait<0>();
    for (unsigned i = 0; i < 4 * tiles; ++i) {
      const unsigned row = warp() * 16 + lane() / 4 + 8 * (i % 4 / 2);
      got[row * columns + i / 4 * 8 + 2 * (lane() % 4) + i % 2] = d[i / 4][i % 4];
    }
  });
  for (unsigned row = 0; row < 64; ++row)
    for (unsigned n = 0; n < columns; ++n) {
      float want = 1;
      for (unsigned k = 0; k < depth; ++k) want += a[row * depth + k] * b[k * columns + n];
      REQUIRE(got[row * columns + n] == want);
    }
}

// Runs a product of zeros with wrong steps `before` or `within` it; returns the fault.
template <class Fault, class Before, class Within>
std::string product_fault(const Before& before, const Within& within) {
  return fault_of<Fault>(one_group, [&] {
    store<Bf16>(std::vector<float>(64 * 16), 16, 0);
    before();
    barrier();
    float d[8][4] = {};
    std::uint32_t a[4] = {};
    within(d, a);
    group_commit();
    group_wait<0>();
  });
}

const auto multiply_zeros = [](float (&d)[8][4], const std::uint32_t (&a)[4]) {
  multiply_add_group<Bf16, Rows::along_columns>(d, a, group_matrix(0, 0), true);
};

}  // namespace

TEST_SUITE("cuda emulator: hopper") {
  TEST_CASE("hopper emulator: on a device before sm_90a its primitives are a fault") {
    const auto on_80 = [](const LaunchShape& shape, const auto& body) {
      const emulator::Emulated device(emulator::profile(80));
      const std::string fault = fault_of<emulator::KernelFault>(shape, body);
      return fault.empty() ? fault : fault.substr(fault.find(": ") + 2);  // any thread may report it
    };
    const std::string device = ", on a device of capability 80; expected 90";
    CHECK(on_80(one_group, [] { fence_async(); }) == "fence_async" + device);
    CHECK(on_80(one_group, [] { mbarrier_init(0, 1); }) == "an mbarrier" + device);
    CHECK(on_80(one_group, [] { group_fence(); }) == "group_fence" + device);
    CHECK(on_80(one_group, [] { barrier_arrive<128>(1); }) == "a named barrier" + device);
    CHECK(on_80(one_group, [] { barrier(); }) == "");
  }

  TEST_CASE("hopper emulator: a warpgroup product equals the matrix product, along depth and along columns") {
    check_product<Bf16, Rows::along_depth, 8>(64);
    check_product<Bf16, Rows::along_depth, 8>(128);
    check_product<F16, Rows::along_depth, 16>(64);
    check_product<Bf16, Rows::along_columns, 8>(64);
    check_product<Bf16, Rows::along_columns, 16>(64);
    check_product<F16, Rows::along_columns, 16>(16);
  }

  TEST_CASE("hopper emulator: a matrix has the 128-byte swizzle of the PTX documentation") {
    CHECK(place(0, 0, 64) * 2 == 0);
    CHECK(place(1, 0, 64) * 2 == 128 + 16);
    CHECK(place(7, 8, 64) * 2 == 7 * 128 + 6 * 16);
    CHECK(place(8, 63, 64) * 2 == 1024 + 126);
    CHECK(place(2, 64, 64) * 2 == 8192 + 256 + 32);
    CHECK(group_matrix(0x12340, 8192).low == 0x02001234);
    CHECK(group_matrix(0x12340, 8192).high == 0x40000040);
  }

  TEST_CASE("hopper emulator: product batches complete in order, and a sum may be restarted") {
    run(one_group, [] {
      store<Bf16>(std::vector<float>(64 * 16, 1), 16, 0);
      fence_async();
      barrier();
      float first[8][4], second[8][4] = {};
      std::uint32_t a[4] = {};
      for (std::uint32_t& two : a) two = pack<Bf16>(1, 1);
      group_fence();
      multiply_add_group<Bf16, Rows::along_columns>(first, a, group_matrix(0, 0), false);
      multiply_add_group<Bf16, Rows::along_columns>(first, a, group_matrix(0, 0), true);
      group_commit();
      multiply_add_group<Bf16, Rows::along_columns>(second, a, group_matrix(0, 0), true);
      group_commit();
      group_wait<1>();
      CHECK(first[7][3] == 32);
      CHECK(std::isnan(second[7][3]));
      group_wait<0>();
      CHECK(second[7][3] == 16);
    });
  }

  TEST_CASE("hopper emulator: a product out of order is a fault that says what was done") {
    using emulator::OrderFault;
    const auto nothing = [] {};
    CHECK(product_fault<OrderFault>(fence_async, [](auto& d, auto& a) {
            group_fence();
            multiply_zeros(d, a);
          }) == "");
    CHECK(product_fault<OrderFault>(fence_async, [](auto& d, auto& a) { multiply_zeros(d, a); }) ==
          "thread 0: a product without a group_fence since the last wait");
    CHECK(product_fault<OrderFault>(nothing, [](auto& d, auto& a) {
            group_fence();
            multiply_zeros(d, a);
          }).ends_with("of shared memory, written without fence_async or changed since"));
    CHECK(product_fault<OrderFault>(fence_async, [](auto& d, auto& a) {
            group_fence();
            multiply_zeros(d, a);
            if (thread_x() == 77) d[3][2] += 1;
          }) == "thread 77: touches the sums of a product before it was waited for");
    CHECK(product_fault<OrderFault>(fence_async, [](auto& d, auto& a) {
            group_fence();
            multiply_zeros(d, a);
            if (thread_x() == 3) a[1] = 7;
          }) == "thread 3: changes what a product multiplies before it was waited for");
    CHECK(product_fault<OrderFault>(fence_async, [](auto& d, auto& a) {
            group_fence();
            multiply_zeros(d, a);
            if (thread_x() == 3) dynamic_shared<std::uint16_t>(0, 1)[0] = 1, fence_async();
          }) == "thread 0: shared memory changed while a product read it");
    CHECK(fault_of<OrderFault>(one_group, [] {
            float d[8][4] = {};
            const std::uint32_t a[4] = {};
            group_fence();
            multiply_zeros(d, a);
          }) == "thread 0: ended before its products were waited for");
  }

  TEST_CASE("hopper emulator: an invalid descriptor, or one that differs between threads, is a fault") {
    const auto with = [](const GroupMatrix& matrix) {
      return [matrix](auto& d, auto& a) {
        group_fence();
        multiply_add_group<Bf16, Rows::along_columns>(d, a, matrix, true);
      };
    };
    const GroupMatrix good = group_matrix(0, 0);
    CHECK(product_fault<emulator::KernelFault>(fence_async, with(good)) == "");
    CHECK(product_fault<emulator::KernelFault>(fence_async, with({good.low, good.high & 0x3fffffff})) ==
          "thread 0: a matrix that is not swizzled by 128 bytes");
    CHECK(product_fault<emulator::AlignmentFault>(fence_async, with(part_of(good, 128))) ==
          "thread 0: a matrix that does not begin in the first row of its patterns of 1024 bytes");
    CHECK(product_fault<emulator::BoundsFault>(fence_async, with(group_matrix(47 * 1024, 0))) != "");
    CHECK(product_fault<emulator::DivergenceFault>(fence_async, [](auto& d, auto& a) {
            group_fence();
            multiply_add_group<Bf16, Rows::along_columns>(d, a, group_matrix(warp() == 2 ? 2048 : 0, 0),
                                                          true);
          }) == "thread 64: brings another matrix to a product than the threads before it");
    CHECK(product_fault<emulator::DivergenceFault>(fence_async, [](auto& d, auto& a) {
            group_fence();
            if (warp() != 3) multiply_zeros(d, a);
          }) == "thread 96: absent from multiply_add_group of thread 0");
  }

  TEST_CASE("hopper emulator: a bulk copy lands when its mbarrier's phase ends") {
    std::vector<float> numbers(256);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = float(i);
    const DeviceCopy<float> device(numbers);
    run({.threads = 64, .shared_bytes = 2048}, [&] {
      const auto to = dynamic_shared<float>(1024, 256);
      const SharedAddress at = dynamic_shared<std::uint64_t>(0, 1).address(0);
      if (thread_x() == 0) mbarrier_init(at, 2), fence_async();
      barrier();
      for (unsigned phase = 0; phase < 3; ++phase) {
        if (thread_x() == 40) {
          mbarrier_arrive_expecting(at, 512);
          copy_bulk(to.address(64 * phase), device.get(), 256, at);
          copy_bulk(to.address(64 * phase + 64), device.get() + 64, 256, at);
          CHECK(std::isnan(to[64 * phase]));
          mbarrier_arrive(at);
        }
        mbarrier_wait(at, phase % 2);
        CHECK(to[64 * phase + 127] == 127);
        barrier();
      }
    });
  }

  TEST_CASE(
      "hopper emulator: a phase that never ends names what is missing; a copy in flight at the end is a "
      "fault") {
    const DeviceCopy<float> device(std::vector<float>(64));
    const auto with = [&](unsigned expected, bool wait, bool fenced = true) {
      return [&device, expected, wait, fenced] {
        const SharedAddress at = dynamic_shared<std::uint64_t>(0, 1).address(0);
        if (thread_x() == 0) mbarrier_init(at, 1);
        if (fenced) fence_async();
        barrier();
        if (thread_x() == 0) mbarrier_arrive_expecting(at, expected);
        if (thread_x() == 0) copy_bulk(128, device.get(), 256, at);
        if (wait) mbarrier_wait(at, 0);
      };
    };
    const LaunchShape shape{.threads = 32, .shared_bytes = 1024};
    CHECK(fault_of<emulator::KernelFault>(shape, with(256, true)) == "");
    CHECK(
        fault_of<emulator::StuckFault>(shape, with(272, true)) ==
        "thread 0: waits for a phase of the mbarrier at byte 0 that never ends: 0 arrivals and 16 bytes are "
        "missing");
    CHECK(fault_of<emulator::StuckFault>(shape, with(128, true)) != "");
    CHECK(fault_of<emulator::OrderFault>(shape, with(512, false)) ==
          "thread 0: ended before a bulk copy to the mbarrier at byte 0 landed");
    CHECK(fault_of<emulator::OrderFault>(shape, with(256, true, false)) ==
          "thread 0: a bulk copy to an mbarrier that was made without a fence");
  }

  TEST_CASE("hopper emulator: a misused mbarrier is a fault") {
    const LaunchShape shape{.threads = 64, .shared_bytes = 1024};
    CHECK(fault_of<emulator::AlignmentFault>(shape, [] { mbarrier_init(4, 1); }) != "");
    CHECK(fault_of<emulator::OrderFault>({.threads = 32, .shared_bytes = 64}, [] { mbarrier_init(8, 1); }) ==
          "thread 1: makes an mbarrier where there is one");
    CHECK(fault_of<emulator::OrderFault>(shape, [] { mbarrier_arrive(8); }).ends_with("made at byte 8"));
    CHECK(fault_of<emulator::OrderFault>({.threads = 32, .shared_bytes = 1024}, [] {
            if (thread_x() == 0) mbarrier_init(8, 32);
            warp_sync();
            mbarrier_arrive(8);
          }) == "thread 1: uses an mbarrier that no barrier has shown it yet");
    CHECK(fault_of<emulator::StuckFault>(shape, [] {
            if (thread_x() == 0) mbarrier_init(8, 1);
            barrier();
            mbarrier_wait(8, 1);  // returns: no phase of odd parity is in progress
            barrier();
            if (thread_x() == 0) mbarrier_arrive(8);
            mbarrier_wait(8, 0);
            barrier();
            if (thread_x() == 63) mbarrier_wait(8, 1);
          }).starts_with("thread 63: waits for a phase"));
    CHECK(fault_of<emulator::AlignmentFault>(shape, [] {
            if (thread_x() == 0) mbarrier_init(8, 1), fence_async();
            barrier();
            if (thread_x() == 0) copy_bulk(64, reinterpret_cast<const void*>(8), 16, 8);
          }) != "");
  }

  TEST_CASE("hopper emulator: a named barrier holds waiting threads until enough arrived, others pass") {
    run({.threads = 128}, [] {
      TROUPE_SHARED(unsigned, number, 1);
      if (warp() == 0) {
        if (lane() == 0) number[0] = 5;
        warp_sync();
        barrier_arrive<64>(3);
      } else if (warp() == 2) {
        barrier_sync<64>(3);
        CHECK(number[0] == 5);
      }
    });
    const LaunchShape shape{.threads = 128};
    CHECK(fault_of<emulator::StuckFault>(shape, [] {
            if (warp() == 1) barrier_sync<64>(3);
          }) == "thread 32: waits at barrier 3, where 32 of 64 threads came");
    CHECK(fault_of<emulator::DivergenceFault>(shape, [] {
            if (warp() == 1) barrier_arrive<64>(3);
          }) == "thread 0: ended with 32 of 64 threads at a named barrier");
    CHECK(fault_of<emulator::DivergenceFault>(shape, [] {
            if (warp() == 1) barrier_arrive<64>(3);
            barrier();
            if (warp() == 2) barrier_sync<96>(3);
          }) == "thread 64: comes to barrier 3 of 96 threads, others of 64");
    CHECK(fault_of<emulator::KernelFault>(shape, [] { barrier_sync<128>(0); }) != "");
  }
}
