// Times work on the device with events: the L2 cache is flushed before each round, and the median
// of the rounds counts. Also measures what this device reaches at most (bandwidth, matrix rate,
// launch time), for comparison.
#include "kernels/cuda/bench/bench_timer.h"

#include <algorithm>

#include "kernels/cuda/device/product.h"
#include "kernels/cuda/kernels/decoder_kernels.h"

namespace troupe::kernels::cuda {
namespace {

constexpr unsigned warm_up_rounds = 3;

// Scales a size and rounds it down to a multiple of 64, at least 64.
std::uint32_t scaled(double full, double share) {
  return std::max(64u, static_cast<std::uint32_t>(full * share) / 64 * 64);
}

}  // namespace

Timing timing_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t half = seconds.size() / 2;
  const double median = seconds.size() % 2 == 1 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2;
  return {median, seconds.front(), seconds.back()};
}

// Writing several times the L2 cache's size evicts everything that the next kernel reads.
Timer::Timer(unsigned rounds, const DeviceProperties& device)
    : rounds_(rounds), flushed_(4 * device.l2_bytes) {}

// Enqueues all rounds without waiting, so that launches are already queued when the device reaches
// them, and the events measure the kernel and not the host.
Timing Timer::time(const PreparedWork& work) {
  std::vector<std::unique_ptr<Event>> begins, ends;
  for (unsigned round = 0; round < warm_up_rounds + rounds_; ++round) {
    begins.push_back(std::make_unique<Event>()), ends.push_back(std::make_unique<Event>());
    if (work.before) work.before(stream_);
    stream_.clear(flushed_.data(), flushed_.size_bytes());
    stream_.record(*begins.back());
    work.run(stream_);
    stream_.record(*ends.back());
  }
  stream_.synchronize();
  std::vector<double> seconds;
  for (unsigned round = warm_up_rounds; round < begins.size(); ++round)
    seconds.push_back(ends[round]->seconds_since(*begins[round]));
  return timing_of(std::move(seconds));
}

// Measures what the device reaches at most; `share` scales the sizes (1: full). Host memory is an
// eighth of the device's, as transfers are slower. Any tiny kernel does for the smallest launch.
MeasuredCeilings Timer::ceilings(double share, Chance& chance) {
  MeasuredCeilings found;
  {
    const std::size_t numbers = scaled(double{1u << 30}, share);
    const DeviceNumbers from(NumberKind::bf16, numbers, chance), to(NumberKind::bf16, numbers);
    found.device.bytes_per_second =
        2 * static_cast<double>(from.size_bytes()) /
        time({.run = [&](Stream& s) { s.copy(to.data(), from.data(), from.size_bytes()); }}).median;
    const PageLockedMemory host(from.size_bytes() / 8);
    const auto bytes = static_cast<double>(host.size_bytes());
    found.to_host =
        bytes /
        time({.run = [&](Stream& s) { s.download(host.data(), from.data(), host.size_bytes()); }}).median;
    found.to_device =
        bytes / time({.run = [&](Stream& s) { s.upload(to.data(), host.data(), host.size_bytes()); }}).median;
    const auto smallest = [&](Stream& s) { swiglu_half(HalfFormat::bf16, from.half(), 1, 8, to.half(), s); };
    found.smallest_launch = time({.run = smallest}).median;
  }
  const std::uint32_t n = scaled(8192, share);
  const std::size_t numbers = std::size_t{n} * n;
  const DeviceNumbers in(NumberKind::bf16, numbers, chance), weight(NumberKind::bf16, numbers, chance),
      out(NumberKind::bf16, numbers);
  const auto product = make_product(HalfFormat::bf16);
  const auto run = [&](Stream& s) {
    product->run({n, n, n, ProductOut::half}, {in.half(), weight.half(), nullptr, out.data()}, s);
  };
  found.device.flops_per_second = 2.0 * n * n * n / time({.run = run}).median;
  return found;
}

}  // namespace troupe::kernels::cuda
