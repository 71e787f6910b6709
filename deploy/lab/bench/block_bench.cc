// BlockBench: times and operation counts of plans whose blocks are cached, and the oracle's choice of tokens.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "deploy/lab/bench/bench_plans.h"
#include "kernels/base/thread_clock.h"
#include "kernels/decoder/choose_tokens.h"

namespace troupe::deploy {
namespace {

using kernels::Segment;
using kernels::SegmentKv;
using kernels::Source;

// Identifies a block: the tokens that it sees, its start position, and its own tokens.
std::vector<Token> key_of(const Plan& plan, const Segment& block) {
  std::vector<Token> key;
  for (const std::uint32_t seen : block.sees)
    key.insert(key.end(), plan.segments[seen].tokens.begin(), plan.segments[seen].tokens.end());
  key.push_back(-1 - block.start);
  key.insert(key.end(), block.tokens.begin(), block.tokens.end());
  return key;
}

// Counts the operations of a plan's rows in the layers. Per layer it counts the rows that enter (queries,
// keys and values) and the rows that continue after the attention (output projection and feed-forward).
class Operations {
 public:
  Operations(const kernels::DecoderConfig& config, const Plan& plan, const std::vector<SegmentKv>& kv)
      : c_(config), plan_(plan), kv_(kv) {}

  double count(const std::vector<std::uint32_t>& chosen) const {
    double all = 0, places = 0, some = 0, all_pairs = 0, span_pairs = 0, some_pairs = 0, read_pairs = 0;
    std::uint32_t number = 0;
    for (std::uint32_t s = 0; s < plan_.segments.size(); ++s) {
      if (kv_[s].source == Source::cached || is_from_prototypes(s)) continue;
      const bool span = is_reused_span(s);
      for (std::size_t t = 0; t < plan_.segments[s].tokens.size(); ++t) {
        const double pairs = seen_by(s) + static_cast<double>(t) + 1;
        all += 1;
        all_pairs += pairs;
        if (!span) continue;
        places += 1;
        span_pairs += pairs;
        if (!std::ranges::binary_search(chosen, number++)) continue;
        some += 1;
        some_pairs += pairs;
      }
    }
    for (const kernels::Readout& readout : plan_.readouts)
      read_pairs += seen_by(readout.segment) + readout.offset + 1;
    const double later = all - places + some, later_pairs = all_pairs - span_pairs + some_pairs;
    const double reads = static_cast<double>(plan_.readouts.size());
    const int layers = static_cast<int>(c_.layers);
    double operations = 0;
    for (int layer = 0; layer < layers; ++layer) {
      const bool last = layer + 1 == layers;
      operations += (layer <= last_entered() ? all : later) * entering();
      operations += (last ? reads : layer < last_entered() ? all : later) * leaving();
      operations += 4 * queries() * (last ? read_pairs : layer <= last_attended() ? all_pairs : later_pairs);
    }
    return operations + scored_pairs() * 2 * queries();
  }

 private:
  const kernels::Repair& repair() const { return plan_.repair; }
  bool is_reused_span(std::uint32_t segment) const {
    return std::ranges::any_of(repair().reused_spans,
                               [&](const auto& span) { return span.segment == segment; });
  }
  bool is_from_prototypes(std::uint32_t segment) const {  // true for a block made of prototypes
    return std::ranges::any_of(repair().reused_spans,
                               [&](const auto& span) { return span.of_prototypes && span.block == segment; });
  }
  double seen_by(std::uint32_t segment) const {
    double tokens = 0;
    for (const std::uint32_t seen : plan_.segments[segment].sees)
      tokens += static_cast<double>(plan_.segments[seen].tokens.size());
    return tokens;
  }
  double queries() const { return c_.heads * c_.head_dim; }
  // Operations per row; a multiply-add counts as two.
  double entering() const { return 2.0 * c_.hidden * (queries() + 2.0 * c_.kv_heads * c_.head_dim); }
  double leaving() const { return 2.0 * c_.hidden * (queries() + 3.0 * c_.intermediate); }
  // The last layer that all tokens of reused spans enter, and the last in which they attend; -1 = none.
  int last_entered() const {
    return std::max(static_cast<int>(repair().exact_layers) - 1, repair().divergence > 0 ? 1 : 0);
  }
  int last_attended() const {
    return repair().attention > 0 ? std::max(0, last_entered() - 1) : last_entered() - 1;
  }
  double scored_pairs() const {
    if (repair().attention == 0) return 0;
    double pairs = 0;
    for (std::uint32_t s = repair().attending; s < plan_.segments.size(); ++s) {
      if (kv_[s].source == Source::cached || is_from_prototypes(s)) continue;
      const auto tokens = static_cast<double>(plan_.segments[s].tokens.size());
      pairs += tokens * (seen_by(s) + (tokens + 1) / 2);
    }
    return pairs;
  }

  const kernels::DecoderConfig& c_;
  const Plan& plan_;
  const std::vector<SegmentKv>& kv_;
};

}  // namespace

struct BlockBench::Pages {
  Pages(const kernels::PageLayout& layout, std::size_t tokens)
      : bytes(static_cast<std::byte*>(std::aligned_alloc(64, layout.page_bytes() * layout.pages_for(tokens))),
              &std::free) {
    if (!bytes) throw std::bad_alloc();
    for (std::size_t i = 0; i < layout.pages_for(tokens); ++i)
      addresses.push_back(bytes.get() + i * layout.page_bytes());
  }
  std::unique_ptr<std::byte, decltype(&std::free)> bytes;
  std::vector<std::byte*> addresses;
};

BlockBench::BlockBench(kernels::Executor& decoder, const kernels::DecoderConfig& config, bool keeps_prefix)
    : decoder_(decoder), config_(config), keeps_prefix_(keeps_prefix) {}
BlockBench::~BlockBench() = default;

void BlockBench::fill_prefix(const Plan& plan, std::vector<SegmentKv>& kv) {
  const Segment& first = plan.segments.front();
  if (!keeps_prefix_ || first.kind != kernels::SegmentKind::system) return;
  const auto [at, is_new] = blocks_.try_emplace(key_of(plan, first), decoder_.layout(), first.tokens.size());
  kv.front() = {Source::cached, at->second.addresses};
  if (!is_new) return;
  const Plan prefix{.segments = {first}};
  const kernels::Request request{&prefix, {{Source::compute, at->second.addresses}}};
  decoder_.run({&request, 1});
}

namespace {

// Returns the segments of a plan that are blocks of items or events, ascending: those that fill reused
// spans, unless the executor makes them of prototypes, and items that see no more than the system prompt.
std::vector<std::uint32_t> blocks_of(const Plan& plan) {
  std::vector<std::uint32_t> blocks;
  for (std::uint32_t s = 0; s < plan.segments.size(); ++s) {
    const auto fills = [&](const kernels::Repair::ReusedSpan& span) { return span.block == s; };
    const auto is_system = [&](std::uint32_t seen) {
      return plan.segments[seen].kind == kernels::SegmentKind::system;
    };
    const Segment& segment = plan.segments[s];
    const auto& spans = plan.repair.reused_spans;
    const auto span = std::ranges::find_if(spans, fills);
    const bool is_span = std::ranges::find(spans, s, &kernels::Repair::ReusedSpan::segment) != spans.end();
    const bool is_read =
        std::ranges::find(plan.readouts, s, &kernels::Readout::segment) != plan.readouts.end();
    const bool is_prefix = segment.kind == kernels::SegmentKind::item && !is_span && !is_read &&
                           std::ranges::all_of(segment.sees, is_system);
    if (span != spans.end() ? !span->of_prototypes : is_prefix) blocks.push_back(s);
  }
  return blocks;
}

}  // namespace

// Computes the blocks of the plan that were not used before, and sets `kv` to the cached pages of all.
void BlockBench::fill(const Plan& plan, std::vector<SegmentKv>& kv) {
  const std::vector<std::uint32_t> blocks = blocks_of(plan);
  if (blocks.empty()) return;
  Plan missing;
  missing.segments.assign(plan.segments.begin(), plan.segments.begin() + blocks.back() + 1);
  std::vector<SegmentKv> made(missing.segments.size());
  bool any = false;
  for (const std::uint32_t s : blocks) {
    const Segment& block = plan.segments[s];
    const auto [at, is_new] =
        blocks_.try_emplace(key_of(plan, block), decoder_.layout(), block.tokens.size());
    kv[s] = {Source::cached, at->second.addresses};
    if (is_new) made[s] = {Source::compute, at->second.addresses};
    any = any || is_new;
  }
  if (!any) return;
  const kernels::Request request{&missing, made};
  decoder_.run({&request, 1});
}

BlockBench::Run BlockBench::run(const Plan& plan) {
  kernels::Request request{&plan, std::vector<SegmentKv>(plan.segments.size())};
  fill_prefix(plan, request.kv);
  fill(plan, request.kv);
  const double begin = kernels::thread_cpu_seconds();
  if (const std::string fault = decoder_.fault(plan); !fault.empty())
    throw std::invalid_argument("a plan is not sound: " + fault);
  const kernels::Reply reply = decoder_.run({&request, 1}).at(0);
  Run run{.scores = scores_of(reply), .seconds = kernels::thread_cpu_seconds() - begin};
  run.operations = Operations(config_, plan, request.kv).count(reply.chosen);
  return run;
}

namespace {

// Reads one token's key or value of a head, stored as float32. Keys are rotated by `shift` positions.
class KvReader {
 public:
  KvReader(const kernels::DecoderConfig& config, std::uint32_t page_tokens)
      : layout_(kernels::kv_layout(config, page_tokens, kernels::KvFormat::f32)),
        frequencies_(kernels::rope_frequencies(config)) {}

  std::vector<double> read(const std::vector<std::byte*>& pages, std::size_t token, std::uint32_t layer,
                           std::uint32_t head, bool value, double shift) const {
    const std::size_t first = value ? layout_.values(layer, head) : layout_.keys(layer, head);
    std::vector<float> stored(layout_.head_dim);
    std::memcpy(
        stored.data(),
        pages[token / layout_.page_tokens] + first + token % layout_.page_tokens * layout_.vector_bytes(),
        layout_.vector_bytes());
    std::vector<double> numbers(stored.begin(), stored.end());
    for (std::size_t i = 0, half = numbers.size() / 2; !value && i < half; ++i) {
      const double angle = shift * frequencies_[i], a = numbers[i], b = numbers[half + i];
      numbers[i] = a * std::cos(angle) - b * std::sin(angle);
      numbers[half + i] = b * std::cos(angle) + a * std::sin(angle);
    }
    return numbers;
  }

 private:
  kernels::KvLayout layout_;
  std::vector<double> frequencies_;
};

}  // namespace

Plan BlockBench::with_oracle(const Plan& plan, const Plan& plain) {
  std::vector<Pages> pages;
  kernels::Request truth{&plain, {}};
  std::map<std::int32_t, std::pair<std::size_t, std::size_t>> at;  // segment and offset by position
  for (const Segment& segment : plain.segments) {
    pages.emplace_back(decoder_.layout(), segment.tokens.size());
    truth.kv.push_back({Source::compute, pages.back().addresses});
    for (std::size_t t = 0; t < segment.tokens.size(); ++t)
      at[segment.start + static_cast<std::int32_t>(t)] = {pages.size() - 1, t};
  }
  decoder_.run({&truth, 1});
  std::vector<SegmentKv> blocks(plan.segments.size());
  fill(plan, blocks);
  const KvReader reader(config_, decoder_.layout().page_tokens);
  kernels::RepairTokens tokens;
  for (const kernels::Repair::ReusedSpan& span : plan.repair.reused_spans) {
    const Segment &own = plan.segments[span.segment], &block = plan.segments[span.block];
    for (std::size_t t = 0; t < own.tokens.size(); ++t) {
      const auto [segment, offset] = at.at(own.start + static_cast<std::int32_t>(t));
      double squares = 0;
      for (std::uint32_t layer = 1; layer < config_.layers; ++layer)
        for (std::uint32_t head = 0; head < config_.kv_heads; ++head)
          for (const bool value : {false, true}) {
            const auto a = reader.read(pages[segment].addresses, offset, layer, head, value, 0);
            const auto b =
                reader.read(blocks[span.block].pages, t, layer, head, value, own.start - block.start);
            for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
          }
      tokens.budget.push_back(span.budget);
      tokens.divergence.push_back(static_cast<float>(std::sqrt(squares)));
    }
  }
  Plan chosen = plan;
  chosen.repair.attention = 0;
  chosen.repair.divergence = 1;
  chosen.repair.factors.clear();
  std::vector<std::uint32_t> order;
  choose_tokens(chosen.repair, tokens, order);
  chosen.repair.divergence = 0;
  chosen.repair.budgets.assign(plan.repair.budgets.size(), 0);
  for (std::uint32_t t = 0; t < tokens.chosen.size(); ++t)
    if (tokens.chosen[t] != 0) chosen.repair.always.push_back(t);
  return chosen;
}

}  // namespace troupe::deploy
