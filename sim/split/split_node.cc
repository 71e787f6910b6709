// Simulates one node of a pool-split experiment. It serves requests from cached histories and
// embedding rows, and applies a policy that moves the split after each window.
#include "sim/split/split_node.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sim/base/quantile.h"

namespace troupe::sim {
namespace {

PagePoolSizes sizes_of(const SplitSizes& sizes, double alpha) {
  const auto rows = static_cast<std::uint32_t>(std::lround(alpha * sizes.pages));
  return pool_sizes(sizes.pages, 1, {rows, sizes.pages - rows});
}

constexpr std::size_t evicted_max = 1 << 16;  // rows remembered for a refill, as many as a pool holds
constexpr Duration refill_interval{100'000};

BlockName name_of(std::uint32_t user) {
  BlockName name{};
  const std::uint64_t number = user + 1;
  std::memcpy(name.bytes.data(), &number, sizeof number);
  return name;
}

placement::ShadowOptions shadow_options(const SplitNodeOptions& options, std::uint64_t pool,
                                        std::uint32_t one_of) {
  return {.pool = pool, .one_of = one_of, .samples_max = 8'192, .kept = options.shadow_kept};
}

}  // namespace

SplitNode::SplitNode(const SplitTimes& times, const SplitNodeOptions& options)
    : times_(times),
      options_(options),
      pool_(sizes_of(times.sizes(), options.alpha)),
      rows_(times.sizes().rows_per_page, evicted_max),
      shards_(options.shards),
      row_shadow_(
          shadow_options(options, std::uint64_t{times.sizes().pages} * times.sizes().rows_per_page, 8)),
      kv_shadow_(shadow_options(options, times.sizes().pages, 1)),
      pace_(options.refill_per_s, refill_interval),
      alpha_(options.alpha) {
  for (std::uint32_t page = times.sizes().pages; page > 0; --page) row_pages_.push_back(page - 1);
  set_alpha(alpha_);
}

void SplitNode::set_alpha(double alpha) {
  alpha_ = alpha;
  const SplitSizes& sizes = times_.sizes();
  const auto rows = static_cast<std::uint32_t>(std::lround(alpha * sizes.pages));
  pool_.set_split(std::array<AreaSplit, 2>{{{rows, 0}, {sizes.pages - rows, 0}}});
  for (; rows_.pages() < rows; row_pages_.pop_back()) rows_.grow(row_pages_.back());
  if (rows_.pages() > rows)
    for (const std::uint32_t page : rows_.shrink(rows_.pages() - rows)) row_pages_.push_back(page);
}

bool SplitNode::has_kv(std::uint32_t user) const { return pool_.find(name_of(user)) != nullptr; }

double SplitNode::coverage(std::span<const std::uint32_t> shards) const {
  double covered = 0;
  for (const std::uint32_t shard : shards)
    if (const ShardUse& use = shards_[shard]; use.rows > 0) covered += use.hits / use.rows;
  return shards.empty() ? 0 : covered / static_cast<double>(shards.size());
}

// Returns the number of missing rows. Each row counts, even if two of a history's rows are the same.
double SplitNode::use_rows(std::span<const std::uint32_t> rows) {
  const RowSlab::Batch batch = rows_.look_up(0, rows);
  for (const RowSlab::Row& row : batch.rows) {
    ShardUse& use = shards_[row.row / options_.rows_per_shard];
    ++use.rows;
    use.hits += row.state == RowState::ready;
  }
  rows_.release(batch);
  return static_cast<double>(std::ranges::count_if(
      batch.rows, [](const RowSlab::Row& row) { return row.state != RowState::ready; }));
}

bool SplitNode::use_kv(const SplitRequest& request) {
  const BlockName name = name_of(request.user);
  if (const PoolBlock* found = pool_.find(name)) {
    pool_.pin(*found);
    pool_.unpin(*found);
    return true;
  }
  const PoolBlock* made =
      pool_.reserve({name, SegmentKind::user, std::to_string(request.user), times_.kv_pages(request.length)});
  if (made) pool_.commit(name, made->generation, 0);
  pool_.take_removed();
  return false;
}

// Copies evicted rows into empty slots for as long as the link was idle until this request.
void SplitNode::refill_rows(double at_us) {
  if (options_.refill_per_s <= 0 || !rows_.wants_refill()) return;
  const double allowed = static_cast<double>(pace_.allowed({static_cast<std::int64_t>(at_us)}));
  const double most =
      std::min(stations_.idle_link_us(at_us) / times_.row_us(), allowed / times_.scaled_row_bytes());
  const RowSlab::Batch batch = rows_.refill(static_cast<std::size_t>(most));
  pace_.spend(static_cast<std::uint64_t>(static_cast<double>(batch.rows.size()) * times_.scaled_row_bytes()));
  rows_.release(batch);
}

double SplitNode::serve(const SplitRequest& request, std::span<const std::uint32_t> rows) {
  refill_rows(request.at_us);
  const bool hit = use_kv(request);
  const double missing = use_rows(rows);
  pace_.spend(static_cast<std::uint64_t>(missing * times_.scaled_row_bytes()));
  const StationTimes served{missing * times_.row_us(),
                            hit ? times_.reused_us(request.length) : times_.computed_us(request.length)};
  const double latency = stations_.serve(request.at_us, served) - request.at_us;
  if (options_.shadows)
    for (const std::uint32_t row : rows) row_shadow_.use(row, 1, times_.row_us());
  latencies_.push_back(static_cast<float>(latency));
  hot_ += request.hot;
  kv_hits_ += hit;
  rows_used_ += static_cast<double>(rows.size());
  row_hits_ += static_cast<double>(rows.size()) - missing;
  events_ += request.length;
  late_ += latency > options_.slo_us;
  served_.copy_us += served.copy_us;
  served_.compute_us += served.compute_us;
  return latency;
}

void SplitNode::note_user(const SplitRequest& request) {
  if (!options_.shadows) return;
  const double spared = times_.computed_us(request.length) - times_.reused_us(request.length);
  kv_shadow_.use(request.user, times_.kv_pages(request.length), spared);
}

placement::SplitState SplitNode::measure() const {
  const double requests = std::max(1.0, static_cast<double>(latencies_.size()));
  placement::SplitState state;
  state.hot_share = hot_ / requests;
  state.kv_hits = kv_hits_ / requests;
  state.row_hits = row_hits_ / std::max(1.0, rows_used_);
  state.length = events_ / requests / options_.length_max;
  state.violations = late_ / requests;
  state.alpha = alpha_;
  state.p99 = latencies_.empty() ? 0 : std::min(1.0, quantile(latencies_, 0.99) / (2 * options_.slo_us));
  return state;
}

void SplitNode::start_window() {
  latencies_.clear();
  hot_ = kv_hits_ = rows_used_ = row_hits_ = events_ = late_ = 0;
  served_ = {};
  constexpr float lately = 0.7F;
  for (ShardUse& use : shards_) use = {use.rows * lately, use.hits * lately};
  row_shadow_.next_window();
  kv_shadow_.next_window();
}

placement::SplitState SplitNode::end_window(placement::SplitPolicy* policy,
                                            std::span<const placement::Savings> savings) {
  const placement::SplitState state = measure();
  if (policy) {
    std::array<double, 2> shares{alpha_, 1 - alpha_};
    policy->decide({state, savings}, shares);
    set_alpha(shares[0]);
    policy->learn();
  }
  start_window();
  return state;
}

}  // namespace troupe::sim
