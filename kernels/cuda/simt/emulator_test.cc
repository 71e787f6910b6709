#include "kernels/cuda/simt/emulator.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/float_formats.h"
#include "kernels/cuda/simt/device_emulated.h"
#include "kernels/cuda/simt/simt.h"
#include "kernels/cuda/testing/device_test.h"

using namespace troupe::kernels::cuda;
using namespace troupe::kernels::cuda::simt;
using troupe::kernels::from_bf16;
using troupe::kernels::to_bf16;

namespace emulator_test {

// Runs `body` as a kernel and waits.
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
    return what.substr(0, what.find(" (schedule seed"));
  }
  return "";
}

template <class Half>
void check_product(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> a(16 * 16), b(16 * 8), got(16 * 8, NAN);
  for (float& x : a) x = float(int(random() % 17) - 8) / 4;  // exact in both formats
  for (float& x : b) x = float(int(random() % 17) - 8) / 4;
  run({.threads = 32}, [&] {
    const unsigned group = lane() / 4, pair = 2 * (lane() % 4);
    const auto at = [&](unsigned row, unsigned column) {
      return pack<Half>(a[row * 16 + column], a[row * 16 + column + 1]);
    };
    const std::uint32_t fragment[4] = {at(group, pair), at(group + 8, pair), at(group, pair + 8),
                                       at(group + 8, pair + 8)};
    const auto b_at = [&](unsigned row) { return pack<Half>(b[row * 8 + group], b[(row + 1) * 8 + group]); };
    float d[4] = {1, 2, 3, 4};
    multiply_add<Half>(d, fragment, b_at(pair), b_at(pair + 8));
    for (unsigned i = 0; i < 4; ++i) got[(group + 8 * (i / 2)) * 8 + pair + i % 2] = d[i] - float(i + 1);
  });
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned column = 0; column < 8; ++column) {
      float want = 0;
      for (unsigned k = 0; k < 16; ++k) want += a[row * 16 + k] * b[k * 8 + column];
      REQUIRE(got[row * 8 + column] == want);
    }
}

TEST_SUITE("cuda emulator") {
  TEST_CASE("emulator: every thread of every block runs once with its own indices") {
    std::vector<int> seen(3 * 2 * 64);
    run({.blocks = 3, .blocks_y = 2, .threads = 64}, [&] {
      CHECK(blocks_x() == 3);
      CHECK(warp() * 32 + lane() == thread_x());
      ++seen[(block_y() * 3 + block_x()) * block_threads() + thread_x()];
    });
    CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
  }

  TEST_CASE("emulator: shuffles and votes pass values between the lanes of a warp") {
    run({.threads = 64}, [] {
      const unsigned base = warp() * 32, mine = thread_x();
      CHECK(shuffle(mine, 7) == base + 7);
      CHECK(shuffle_xor(mine, 3) == base + (lane() ^ 3));
      CHECK(shuffle(double(mine) / 2, lane() + 1) == (base + (lane() + 1) % 32) / 2.0);
      CHECK(ballot(lane() % 2 == 1) == 0xaaaaaaaau);
      CHECK(any(lane() == 31));
      CHECK(!all(lane() != 30));
      CHECK(all(true));
    });
  }

  TEST_CASE("emulator: a barrier shows the block's writes and votes to all its threads") {
    run({.threads = 128}, [] {
      TROUPE_SHARED(unsigned, numbers, 128);
      numbers[thread_x()] = thread_x();
      CHECK(barrier_or(thread_x() == 77));
      CHECK(numbers[127 - thread_x()] == 127 - thread_x());
      CHECK(!barrier_or(false));
    });
  }

  TEST_CASE("emulator: without the barrier some thread reads NaN where another has not written yet") {
    unsigned missing = 0;
    run({.threads = 128}, [&] {
      TROUPE_SHARED(float, numbers, 128);
      numbers[thread_x()] = 1;
      if (std::isnan(numbers[127 - thread_x()])) ++missing;
    });
    CHECK(missing > 0);
  }

  TEST_CASE("emulator: warps run in a changing order between barriers") {
    std::vector<unsigned> first(100, 0);
    run({.threads = 128}, [&] {
      for (unsigned& warp_first : first) {
        TROUPE_SHARED(unsigned, came, 1);
        if (thread_x() == 0) came[0] = ~0u;
        barrier();
        if (lane() == 0 && came[0] == ~0u) warp_first = came[0] = warp();
        barrier();
      }
    });
    std::sort(first.begin(), first.end());
    CHECK(first.front() == 0);
    CHECK(first.back() == 3);
  }

  TEST_CASE(
      "emulator: a barrier or warp operation that not all threads reach is a fault naming kernel and "
      "thread") {
    const std::string barrier_fault = fault_of<emulator::DivergenceFault>({.threads = 64}, [] {
      if (thread_x() != 40) barrier();
    });
    CHECK(barrier_fault == "probe, block (0, 0), thread 40: ended without the barrier that others wait at");
    const std::string shuffle_fault = fault_of<emulator::DivergenceFault>({.blocks = 2, .threads = 32}, [] {
      if (block_x() == 1 && lane() < 16) shuffle(1, 0);
    });
    CHECK(shuffle_fault == "probe, block (1, 0), thread 16: absent from shuffle of thread 0");
    CHECK(fault_of<emulator::DivergenceFault>({}, [] {
            if (lane() < 16)
              shuffle(1, 0);
            else
              ballot(true);
          }) == "probe, block (0, 0), thread 16: absent from shuffle of thread 0");
    CHECK(fault_of<emulator::DivergenceFault>({}, [] {
            if (lane() == 3)
              barrier();
            else
              warp_sync();
          }) == "probe, block (0, 0), thread 3: absent from warp_sync of thread 0");
    run({.threads = 64}, [] { barrier(); });  // the emulator still works
  }

  TEST_CASE("emulator: an access outside the requested shared memory is a fault") {
    const LaunchShape shape{.threads = 32, .shared_bytes = 256};
    CHECK(fault_of<emulator::BoundsFault>(shape, [] { dynamic_shared<float>(128, 32)[31] = 1; }) == "");
    CHECK(fault_of<emulator::BoundsFault>(shape, [] { dynamic_shared<float>(128, 33); }) != "");
    CHECK(fault_of<emulator::BoundsFault>(shape, [] { dynamic_shared<float>(0, 32)[thread_x() + 1] = 1; }) ==
          "probe, block (0, 0), thread 31: reads or writes outside its shared memory");
    CHECK(fault_of<emulator::BoundsFault>(shape, [] {
            std::uint32_t r[4];
            load_matrices(r, 16 * lane());
          }) != "");
    CHECK(fault_of<emulator::AlignmentFault>(shape, [] {
            std::uint32_t r[4];
            load_matrices(r, 8);
          }) != "");
    CHECK(fault_of<emulator::KernelFault>({.threads = 48}, [] {}) != "");
  }

  TEST_CASE("emulator: a launch beyond the device's limits per block is a fault that names both") {
    const auto fault_on = [](unsigned capability, std::size_t bytes) {
      const emulator::Emulated device(emulator::profile(capability));
      return fault_of<emulator::BoundsFault>({.threads = 32, .shared_bytes = bytes}, [] {});
    };
    for (const auto& [capability, kib] : {std::pair{80u, 163u}, {86u, 99u}, {90u, 227u}}) {
      CAPTURE(capability);
      CHECK(fault_on(capability, kib * 1024) == "");
      CHECK(fault_on(capability, kib * 1024 + 8) ==
            "probe, block (0, 0), thread 0: " + std::to_string(kib * 1024 + 8) +
                " bytes of shared memory; expected up to " + std::to_string(kib * 1024) +
                " of emulator of sm_" + std::to_string(capability));
    }
    CHECK_THROWS_WITH_AS(emulator::profile(75), "no profile of capability 75; expected 80, 86 or 90",
                         DeviceError);
  }

  TEST_CASE("emulator: the schedule seed determines the order of warps, and faults name it") {
    const auto order = [](std::uint64_t seed) {
      std::vector<unsigned> came;
      std::thread([&] {  // its machine is constructed with this seed
        emulator::use_schedule_seed(seed);
        run({.threads = 256}, [&] {
          for (int round = 0; round < 8; ++round) {
            if (lane() == 0) came.push_back(warp());
            barrier();
          }
        });
      })
          .join();
      return came;
    };
    const std::uint64_t seed = emulator::schedule_seed();
    CHECK(order(1) == order(1));
    CHECK(order(1) != order(2));
    emulator::use_schedule_seed(seed);
    CHECK_THROWS_WITH_AS(run({.threads = 31}, [] {}),
                         doctest::Contains(("(schedule seed " + std::to_string(seed)).c_str()),
                         emulator::KernelFault);
  }

  TEST_CASE("emulator: an asynchronous copy lands at its wait and is NaN until then") {
    std::vector<float> numbers(32 * 8);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = float(i);
    const DeviceCopy<float> device(numbers);
    run({.threads = 32, .shared_bytes = 1024}, [&] {
      const auto to = dynamic_shared<float>(0, 256);
      const std::size_t i = 4 * thread_x();
      to[i] = 5;
      copy_async<16>(to.address(i), device.get() + i, true);
      copy_async_commit();
      copy_async<8>(to.address(128 + i), device.get() + 128 + i, true);
      copy_async<8>(to.address(130 + i), device.get(), false);
      copy_async_commit();
      CHECK(std::isnan(to[i]));
      copy_async_wait<1>();
      CHECK(to[i + 3] == float(i + 3));
      CHECK(std::isnan(to[128 + i]));
      copy_async_wait<0>();
      CHECK(to[129 + i] == float(129 + i));
      CHECK(to[130 + i] == 0);
      copy_async<16>(to.address(i), device.get() + i, true);
      copy_async_wait<0>();  // not committed
      CHECK(std::isnan(to[i]));
    });
  }

  TEST_CASE("emulator: an asynchronous copy from host memory or a misaligned address is a fault") {
    const DeviceCopy<float> device(std::vector<float>(64));
    const LaunchShape shape{.threads = 32, .shared_bytes = 1024};
    alignas(16) const float host[4] = {};
    const auto copy_from = [](const float* from) {
      return [from] { copy_async<16>(dynamic_shared<float>(0, 4).address(0), from, true); };
    };
    CHECK(fault_of<emulator::BoundsFault>(shape, copy_from(host)) != "");
    CHECK(fault_of<emulator::BoundsFault>(shape, copy_from(device.get() + 64)) != "");
    CHECK(fault_of<emulator::AlignmentFault>(shape, copy_from(device.get() + 1)) != "");
    CHECK(fault_of<emulator::KernelFault>(shape, copy_from(device.get() + 60)) == "");
  }

  TEST_CASE("emulator: matrix loads deal rows to lanes, plain and transposed, and count bank conflicts") {
    for (const unsigned stride : {8u, 64u}) {  // 16-byte rows side by side; all in one bank
      CAPTURE(stride);
      const auto before = emulator::counts();
      run({.threads = 32, .shared_bytes = 32 * 64 * 2}, [&] {
        const auto halves = dynamic_shared<std::uint16_t>(0, 32 * 64);
        for (unsigned i = 0; i < 8; ++i) halves[lane() * stride + i] = std::uint16_t(lane() * 8 + i);
        warp_sync();
        std::uint32_t r[4], t[4];
        load_matrices(r, halves.address(lane() * stride));
        load_matrices_transposed(t, halves.address(lane() * stride));
        for (unsigned m = 0; m < 4; ++m) {
          const unsigned row = lane() / 4, column = 2 * (lane() % 4), at = m * 64;
          CHECK(r[m] == ((at + row * 8 + column) | (at + row * 8 + column + 1) << 16));
          CHECK(t[m] == ((at + column * 8 + row) | (at + (column + 1) * 8 + row) << 16));
        }
      });
      CHECK(emulator::counts().matrix_loads - before.matrix_loads == 8);
      CHECK(emulator::counts().bank_conflicts - before.bank_conflicts == (stride == 8 ? 0 : 8 * 7));
    }
  }

  TEST_CASE("emulator: a product of fragments equals the matrix product") {
    check_product<Bf16>(1);
    check_product<F16>(2);
  }

  TEST_CASE("emulator: packed numbers are rounded to nearest and unpacked again") {
    run({}, [] {
      const std::uint32_t two = pack<Bf16>(1.00390625f, -3.0f);
      CHECK(low_of<Bf16>(two) == 1.0f);  // a tie, to even
      CHECK(high_of<Bf16>(two) == -3.0f);
      CHECK(low_of<F16>(pack<F16>(65504.0f, 0)) == 65504.0f);
      CHECK(std::isinf(high_of<F16>(pack<F16>(0, 70000.0f))));
    });
  }

  TEST_CASE("emulator: a stream runs its commands in order at a wait, and events order streams") {
    const std::vector<float> ones(4, 1);
    const DeviceCopy<float> device(std::vector<float>(4, 0));
    std::vector<float> out(4, 0);
    Stream first, second;
    Event done;
    CHECK(done.reached());
    first.upload(device.get(), ones.data(), 16);
    first.record(done);
    first.clear(device.get(), 8);
    second.wait(done);
    second.download(out.data(), device.get(), 16);
    CHECK(!done.reached());
    CHECK(out[0] == 0);
    second.synchronize();
    CHECK(done.reached());
    CHECK(out == ones);
    first.synchronize();
    CHECK(device.host(second) == std::vector<float>{0, 0, 1, 1});
  }

  TEST_CASE("emulator: a graph replays what was recorded, with the current contents of memory") {
    std::vector<float> in(4, 1), out(4, 0);
    const DeviceCopy<float> device(in);
    Stream stream;
    const Graph graph(stream, [&] {
      stream.upload(device.get(), in.data(), 16);
      stream.download(out.data(), device.get(), 16);
    });
    stream.synchronize();
    CHECK(out[0] == 0);
    for (const float x : {2.0f, 3.0f}) {
      in[3] = x;
      graph.launch(stream);
      stream.synchronize();
      CHECK(out[3] == x);
    }
  }

  TEST_CASE("emulator: a stream's copies check which side is host and which is device memory") {
    const DeviceCopy<float> device(std::vector<float>(4));
    std::vector<float> host(8);
    Stream stream;
    CHECK_THROWS_AS(stream.upload(host.data(), host.data(), 4), DeviceError);
    CHECK_THROWS_AS(stream.upload(device.get(), device.get(), 4), DeviceError);
    CHECK_THROWS_AS(stream.download(host.data(), device.get(), 32), DeviceError);
    CHECK_THROWS_AS(stream.copy(device.get(), host.data(), 4), DeviceError);
  }
}

}  // namespace emulator_test
