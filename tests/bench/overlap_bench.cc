// Measures the gain of a pass that begins while its blocks come from another process, layer by layer,
// over a pass that begins afterwards. Two processes use this machine's loopback: an owner, whose pages
// hold the blocks of a prompt's items, and a reader, which pulls them by UCX and computes the remaining
// prompt. Both ways alternate, and their answers must be equal.
//   overlap_bench [--layers N] [--hidden N] [--items N] [--item-tokens N] [--new-tokens N] [--rounds N]
// Prints one JSON object. Times are the reader's, from the start of the pull to the answer; processor
// time is of all its threads.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "actors/inference/compute_port.h"
#include "kernels/decoder/decoder.h"
#include "runtime/transfer/ucx_transport.h"

using namespace troupe;

namespace {

using Clock = std::chrono::steady_clock;

constexpr NodeId owner_node = 1;
constexpr Incarnation owner_incarnation = 100, reader_incarnation = 200;
constexpr std::uint32_t page_tokens = 16;

struct Options {
  std::uint32_t layers = 12, hidden = 512, items = 20, item_tokens = 87, new_tokens = 64, rounds = 15;
};

kernels::DecoderConfig config_of(const Options& options) {
  kernels::DecoderConfig config;
  config.family = kernels::Family::llama;
  config.layers = options.layers, config.hidden = options.hidden, config.head_dim = 64;
  config.heads = options.hidden / 64, config.kv_heads = std::max(1U, config.heads / 2);
  config.intermediate = 3 * options.hidden, config.vocabulary = 1'000;
  config.positions_max = options.items * options.item_tokens + options.new_tokens + 1;
  return config;
}

std::uint32_t pages_of_item(const Options& options) {
  return (options.item_tokens + page_tokens - 1) / page_tokens;
}

// Each item was computed alone; new tokens see all of them.
BatchRequest prompt(const Options& options) {
  BatchRequest request;
  for (std::uint32_t i = 0; i < options.items; ++i) {
    Segment& item = request.plan.segments.emplace_back();
    item.kind = SegmentKind::item;
    std::vector<Token> tokens;
    for (std::uint32_t t = 0; t < options.item_tokens; ++t)
      tokens.push_back(static_cast<Token>((7 * i + 3 * t) % 990));
    item.tokens = tokens;
  }
  Segment& rest = request.plan.segments.emplace_back();
  rest.kind = SegmentKind::user;
  rest.tokens = std::vector<Token>(options.new_tokens, 5);
  rest.start = static_cast<std::int32_t>(options.item_tokens);
  rest.sees = kernels::VisibleSegments::all_before(options.items);
  request.plan.readouts = {{options.items, options.new_tokens - 1, {1, 2, 3, 4}}};
  request.blocks.resize(options.items + 1);
  request.kv.resize(options.items + 1);
  for (std::uint32_t i = 0; i < options.items; ++i)
    for (std::uint32_t p = 0; p < pages_of_item(options); ++p)
      request.kv[i].pages.push_back(i * pages_of_item(options) + p);
  return request;
}

struct Device {
  explicit Device(const Options& options)
      : arena(executor(options)->layout().page_bytes(), options.items * pages_of_item(options)),
        port({.model = executor(options),
              .model_version = "one",
              .arena = arena,
              .make_pages = actors::ComputePort::arena_pages(false)}) {}
  static std::unique_ptr<kernels::Executor> executor(const Options& options) {
    return kernels::make_cpu_decoder(kernels::random_decoder(config_of(options), 1),
                                     {.page_tokens = page_tokens});
  }
  BatchDone run(BatchRequest request, std::int64_t in_flight_us = 0) {
    RunBatch batch{{std::make_shared<const BatchRequest>(std::move(request))}};
    batch.in_flight_us = in_flight_us;
    JobResult result = port.run(batch, 0);
    auto* const done = std::get_if<BatchDone>(&result);
    if (!done || done->replies.at(0).refusal) throw std::runtime_error("the pass was refused");
    return std::move(*done);
  }
  PageArena arena;
  actors::ComputePort port;
};

void put(int to, const void* from, std::size_t size) {
  if (write(to, from, size) != static_cast<ssize_t>(size)) throw std::runtime_error("a pipe has ended");
}
void get(int from, void* to, std::size_t size) {
  for (auto* at = static_cast<char*>(to); size > 0;) {
    const ssize_t got = read(from, at, size);
    if (got <= 0) throw std::runtime_error("the owner has ended");
    at += got, size -= static_cast<std::size_t>(got);
  }
}

// Computes the blocks, announces their location, and serves them until the reader has ended.
void own(const Options& options, int to_reader, int from_reader) {
  Device device(options);
  BatchRequest request = prompt(options);
  for (std::uint32_t i = 0; i < options.items; ++i) request.kv[i].grant = Grant::write;
  const BatchDone done = device.run(request);
  MetricRegistry metrics;
  UcxTransport transport({.devices = "lo"}, owner_incarnation, device.arena, metrics);
  const Bytes address = transport.address();
  const std::uint64_t size = address.size();
  put(to_reader, &size, sizeof size);
  put(to_reader, address.data(), size);
  put(to_reader, done.replies.at(0).checksums.data(), options.items * sizeof(std::uint64_t));
  for (char byte = 0; read(from_reader, &byte, 1) > 0;) continue;
}

double processor_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& t) {
    return 1e3 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_usec);
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

struct PassMode {
  const char* name;
  std::vector<double> ms, processor, waited, pull, pass;
};

class Reader {
 public:
  Reader(const Options& options, int from_owner)
      : options_(options),
        device_(options),
        transport_({.devices = "lo"}, reader_incarnation, device_.arena, metrics_) {
    std::uint64_t size = 0;
    get(from_owner, &size, sizeof size);
    Bytes address(size);
    get(from_owner, address.data(), size);
    checksums_.resize(options.items);
    get(from_owner, checksums_.data(), options.items * sizeof(std::uint64_t));
    transport_.meet(owner_node, owner_incarnation, address);
  }

  void run(PassMode& way, bool overlap) {
    for (std::uint32_t page = 0; page < device_.arena.pages(); ++page)
      std::memset(device_.arena.page(page), 0xff, device_.arena.page_bytes());
    BatchRequest request = prompt(options_);
    const PullBlocks work = pull_of(request, overlap);
    const double processor = processor_ms();
    const auto began = Clock::now();
    const auto ms = [&] { return std::chrono::duration<double, std::milli>(Clock::now() - began).count(); };
    double pulled = 0;
    std::thread copy([&] {
      const auto outcome = transport_.pull(work);
      const auto* done = std::get_if<PullResult>(&outcome);
      if (!done || std::ranges::count(done->ok, 0) > 0) std::abort();
      pulled = ms();
    });
    if (!overlap) copy.join();
    const double before = ms();
    const BatchDone done = device_.run(request, work.budget_us);
    way.ms.push_back(ms());
    way.pass.push_back(way.ms.back() - before);
    if (overlap) copy.join();
    way.processor.push_back(processor_ms() - processor);
    way.waited.push_back(1e-3 * static_cast<double>(done.waited_us));
    way.pull.push_back(pulled);
    if (!done.replies.at(0).missed.empty()) throw std::runtime_error("blocks did not come");
    if (answer_.empty()) answer_ = done.replies[0].readouts;
    if (answer_ != done.replies[0].readouts) throw std::runtime_error("the two ways have different answers");
  }
  double megabytes() const {
    return 1e-6 * static_cast<double>(device_.arena.pages() * device_.arena.page_bytes());
  }

 private:
  PullBlocks pull_of(BatchRequest& request, bool overlap) {
    PullBlocks work{owner_node, owner_incarnation, 60'000'000, {}};
    if (overlap) work.parts = options_.layers;
    for (std::uint32_t i = 0; i < options_.items; ++i) {
      BatchSegmentKv& kv = request.kv[i];
      kv.grant = Grant::read, kv.checksum = checksums_[i], kv.generation = ++generation_,
      kv.in_flight = overlap;
      work.blocks.push_back({{}, 1, kv.checksum, options_.item_tokens, kv.pages, kv.pages, kv.generation});
    }
    return work;
  }

  const Options options_;
  Device device_;
  MetricRegistry metrics_;
  UcxTransport transport_;
  std::vector<std::uint64_t> checksums_;
  std::uint64_t generation_ = 0;
  std::vector<ScoreRow> answer_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void print(const PassMode& way) {
  std::vector<double> sorted = way.ms;
  std::ranges::sort(sorted);
  std::printf(R"("%s": {"ms_p50": %.2f, "ms_p10": %.2f, "ms_p90": %.2f, )"
              R"("pull_ms": %.2f, "pass_ms": %.2f, "waited_ms": %.2f, "processor_ms": %.2f})",
              way.name, median(way.ms), sorted[sorted.size() / 10], sorted[sorted.size() * 9 / 10],
              median(way.pull), median(way.pass), median(way.waited), median(way.processor));
}

int compare(const Options& options, int from_owner) {
  Reader reader(options, from_owner);
  PassMode behind{"behind", {}, {}, {}, {}, {}}, beside{"beside", {}, {}, {}, {}, {}};
  PassMode warm = behind;
  for (const bool overlap : {false, true}) reader.run(warm, overlap);
  std::vector<double> ratios;
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    for (const bool overlap : {round % 2 == 0, round % 2 != 0})
      reader.run(overlap ? beside : behind, overlap);
    ratios.push_back(behind.ms.back() / beside.ms.back());
  }
  std::printf(R"({"layers": %u, "hidden": %u, "items": %u, "item_tokens": %u, )"
              R"("new_tokens": %u, "megabytes": %.1f, "rounds": %u, )",
              options.layers, options.hidden, options.items, options.item_tokens, options.new_tokens,
              reader.megabytes(), options.rounds);
  print(behind);
  std::printf(", ");
  print(beside);
  std::printf(R"(, "behind_over_beside": %.3f})"
              "\n",
              median(ratios));
  return 0;
}

Options parse(int count, char** arguments) {
  Options options;
  const std::pair<const char*, std::uint32_t Options::*> names[] = {
      {"--layers", &Options::layers},         {"--hidden", &Options::hidden},
      {"--items", &Options::items},           {"--item-tokens", &Options::item_tokens},
      {"--new-tokens", &Options::new_tokens}, {"--rounds", &Options::rounds}};
  for (int i = 1; i + 1 < count; i += 2) {
    const auto at = std::ranges::find_if(
        names, [&](const auto& name) { return std::strcmp(name.first, arguments[i]) == 0; });
    const long value = std::atol(arguments[i + 1]);
    if (at == std::end(names) || value < 1 || value > 100'000)
      throw std::runtime_error(std::string(arguments[i]) + " " + arguments[i + 1] +
                               "; expected an option of those above, and 1..100000");
    options.*at->second = static_cast<std::uint32_t>(value);
  }
  if (count % 2 == 0)
    throw std::runtime_error(std::string(arguments[count - 1]) + " has no value; expected one");
  return options;
}

}  // namespace

int main(int count, char** arguments) try {
  const Options options = parse(count, arguments);
  int to_reader[2], to_owner[2];
  if (pipe(to_reader) != 0 || pipe(to_owner) != 0) throw std::runtime_error("no pipe");
  const pid_t owner = fork();
  if (owner < 0) throw std::runtime_error("no second process");
  if (owner == 0) {
    close(to_owner[1]);
    own(options, to_reader[1], to_owner[0]);
    _exit(0);
  }
  close(to_owner[0]);
  close(to_reader[1]);
  const int status = compare(options, to_reader[0]);
  close(to_owner[1]);
  waitpid(owner, nullptr, 0);
  return status;
} catch (const std::exception& error) {
  std::fprintf(stderr, "overlap_bench: %s\n", error.what());
  return 1;
}
