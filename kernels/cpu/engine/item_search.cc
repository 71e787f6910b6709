// Finds the best rows of the item table for the searches of a batch, in one scan of the table.
#include "kernels/cpu/engine/item_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/cpu/engine/decoder_workspace.h"
#include "kernels/decoder/decoder.h"

namespace troupe::kernels {
namespace {

// Rows of a block: their scores stay in the first-level cache, the rows themselves in the second.
constexpr std::size_t block_rows = 512;
// Scores of a block, and of the rest of the panels where it begins and ends.
constexpr std::size_t block_stride = block_rows + 2 * 64;
// Searches whose scores of one block are kept at a time.
constexpr std::size_t group_searches = 16;
// A block of which fewer than one row in so many is wanted is not scanned: its rows are read by number.
constexpr std::size_t sparse_share = 4;
constexpr std::size_t parts_per_core = 4;

std::vector<Token> first_tokens(std::span<const Tokens> paths) {
  std::vector<Token> tokens;
  tokens.reserve(paths.size());
  for (const Tokens& path : paths)
    if (path.size() == 1) tokens.push_back(path[0]);
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

// Rows that a scan of a table in bf16 keeps for a search with so many results.
std::size_t rows_kept(std::size_t results) { return results + std::max<std::size_t>(results, 32); }

std::span<const Token> without_padding(std::span<const Token> rows) {
  return !rows.empty() && rows.front() == 0 ? rows.subspan(1) : rows;
}

}  // namespace

void allow_item_search(PlanLimits& limits) {
  limits.width_max = search_width_max;
  limits.item_searches = true;
}

std::span<const Request> ItemSearch::begin(std::span<const Request> requests) {
  plans_.clear();
  searches_.clear();
  if (std::ranges::none_of(requests, [](const Request& r) { return r.plan->search.width > 0; }))
    return requests;
  computed_.assign(requests.begin(), requests.end());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Plan& plan = *requests[i].plan;
    if (plan.search.width == 0) continue;
    const std::uint32_t segment = plan.search.segment;
    TROUPE_CHECK(segment < plan.segments.size() && requests[i].kv.at(segment).source == Source::compute,
                 "item search: expected a search behind a computed segment");
    add(requests[i], i);
    plans_.push_back(plan);
    plans_.back().search = {};
    plans_.back().readouts.push_back({segment,
                                      static_cast<std::uint32_t>(plan.segments[segment].tokens.size() - 1),
                                      {},
                                      Readout::What::state});
    computed_[i].plan = &plans_.back();
  }
  return computed_;
}

ItemSearch::OneSearch& ItemSearch::add(const Request& request, std::size_t number) {
  OneSearch& one = searches_.emplace_back();
  one.request = number;
  one.search = &request.plan->search;
  one.over_all = one.search->normalised == Search::Normalisation::vocabulary;
  one.barred = first_tokens(one.search->denied);
  if (!one.search->allowed.empty()) {
    one.own_rows = first_tokens(one.search->allowed);
    one.rows = without_padding(one.own_rows);
  } else if ((one.paths = request.paths())) {
    TROUPE_CHECK(one.paths->depth() <= 1, "item search: expected paths of one token");
    one.rows = without_padding(one.paths->next(PathIndex::root));
  } else {
    one.any_row = true;
  }
  return one;
}

void ItemSearch::take_states(std::span<Reply> replies, const ItemTable& table) {
  for (OneSearch& one : searches_) {
    Reply& reply = replies[one.request];
    if (!reply.too_large.empty()) continue;
    TROUPE_CHECK(!reply.readouts.empty(), "item search: expected a state");
    one.state = std::move(reply.readouts.back());
    reply.readouts.pop_back();
    table.norm(one.state);
    TROUPE_CHECK(one.state.size() == table.items.columns,
                 "item search: expected a state of the table's width");
  }
  std::erase_if(searches_, [](const OneSearch& one) { return one.state.empty(); });
}

void ItemSearch::finish(std::span<Reply> replies, const ItemTable& table, Team& team, double* seconds) {
  if (searches_.empty()) return;
  TROUPE_CHECK(table.factors.size() == table.items.rows, "item search: expected one factor per row");
  {
    const PartTimer timer(seconds);
    take_states(replies, table);
  }
  if (!searches_.empty()) find(replies, table, team, seconds);
  if (!searches_.empty()) {
    ItemTable wide = table;
    wide.narrow = nullptr;
    find(replies, wide, team, seconds);
  }
  // A catalog that is no longer served must not stay in memory until the next search.
  searches_.clear();
  computed_.clear();
  plans_.clear();
}

// Scans the table in parts, which idle cores share, for all searches, and drops those that are settled.
void ItemSearch::find(std::span<Reply> replies, const ItemTable& table, Team& team, double* seconds) {
  Team::Pass pass(team);
  const RowRange all{1, std::max<std::size_t>(1, table.items.rows)};
  const std::size_t blocks = (all.end + block_rows - 1) / block_rows;
  const std::size_t parts = std::max<std::size_t>(1, std::min(blocks, parts_per_core * pass.workers()));
  found_.resize(parts * searches_.size());
  scratch_.resize(team.cores());
  const double operations =
      2.0 * static_cast<double>(all.size() * searches_.size()) * static_cast<double>(table.items.columns);
  pass.run(parts, operations, [&](std::size_t part, std::uint32_t worker) {
    const PartTimer timer(seconds == nullptr ? nullptr : &scratch_[worker].seconds);
    // Blocks begin at multiples of their rows, where panels of a packed table begin, too.
    const auto row = [&](std::size_t of) {
      return std::clamp(blocks * of / parts * block_rows, all.begin, all.end);
    };
    scan({row(part), row(part + 1)}, std::span(found_).subspan(part * searches_.size(), searches_.size()),
         table, scratch_[worker]);
  });
  for (Scratch& scratch : scratch_)
    if (seconds != nullptr) *seconds += std::exchange(scratch.seconds, 0);
  const PartTimer timer(seconds);
  std::vector<ScoredRow>& best = best_;
  for (std::size_t s = 0; s < searches_.size(); ++s) {
    for (std::size_t part = 1; part < parts; ++part) {
      const Found& other = found_[part * searches_.size() + s];
      found_[s].total.add(other.total);
      found_[s].best.offer(other.best);
    }
    found_[s].best.finish(best);
    if (table.narrow != nullptr && !settle(searches_[s], best, table)) continue;
    write_beams(searches_[s], found_[s], best, replies[searches_[s].request].beams);
    searches_[s].state.clear();
  }
  std::erase_if(searches_, [](const OneSearch& one) { return one.state.empty(); });
}

// Scores the kept rows in float32 and leaves those asked for, best first. False if a row that was not kept
// may be better than one of them.
bool ItemSearch::settle(OneSearch& one, std::vector<ScoredRow>& best, const ItemTable& table) {
  const std::size_t results = one.search->results;
  const bool all = best.size() < rows_kept(results);
  const double left = best.empty() ? 0 : double{best.back().score} + table.narrow->error_of(one.state);
  std::vector<Token> rows;
  for (const ScoredRow& row : best) rows.push_back(row.row);
  std::vector<float> scores(rows.size());
  const float* const state = one.state.data();
  float* const out = scores.data();
  kernels_.readout({&state, 1}, table.items, rows, {&out, 1});
  for (std::size_t i = 0; i < rows.size(); ++i)
    best[i] = {scores[i] * table.factors[static_cast<std::size_t>(rows[i])], rows[i]};
  std::ranges::sort(best, ranks_before);
  best.resize(std::min(best.size(), results));
  return all || double{best.back().score} > left;
}

void ItemSearch::scan(RowRange part, std::span<Found> found, const ItemTable& table, Scratch& scratch) const {
  for (std::size_t s = 0; s < searches_.size(); ++s) {
    const OneSearch& one = searches_[s];
    const std::size_t results = one.search->results;
    found[s].best.begin(table.narrow == nullptr ? results : rows_kept(results), one.barred);
    found[s].total = {};
    found[s].next = static_cast<std::size_t>(
        std::ranges::lower_bound(one.rows, static_cast<Token>(part.begin)) - one.rows.begin());
  }
  for (std::size_t begin = part.begin, end = 0; begin < part.end; begin = end) {
    end = std::min(part.end, (begin / block_rows + 1) * block_rows);
    scan_block({begin, end}, found, table, scratch);
  }
}

// Returns the rows of a block that a search may find; empty, too, if it may find any.
std::span<const Token> ItemSearch::rows_in(const OneSearch& one, RowRange block, const Found& found) const {
  const std::span<const Token> left = one.rows.subspan(found.next);
  const std::span<const Token> near = left.first(std::min(left.size(), block.size()));
  return near.first(
      static_cast<std::size_t>(std::ranges::lower_bound(near, static_cast<Token>(block.end)) - near.begin()));
}

void ItemSearch::scan_block(RowRange block, std::span<Found> found, const ItemTable& table,
                            Scratch& scratch) const {
  scratch.searches.clear();
  for (std::size_t s = 0; s < searches_.size(); ++s) {
    const OneSearch& one = searches_[s];
    const std::span<const Token> rows = rows_in(one, block, found[s]);
    if (one.over_all || one.any_row || rows.size() * sparse_share >= block.size()) {
      scratch.searches.push_back(s);
      if (scratch.searches.size() == group_searches) score_group(block, found, table, scratch);
    } else if (!rows.empty()) {
      score_named(one, rows, table, found[s], scratch);
      found[s].next += rows.size();
    }
  }
  if (!scratch.searches.empty()) score_group(block, found, table, scratch);
}

// Scores a block for the searches of a group, and empties the group.
void ItemSearch::score_group(RowRange block, std::span<Found> found, const ItemTable& table,
                             Scratch& scratch) const {
  scratch.scores.resize(group_searches * block_stride);
  scratch.states.clear();
  scratch.out.clear();
  for (const std::size_t s : scratch.searches) {
    scratch.out.push_back(scratch.scores.data() + scratch.out.size() * block_stride);
    scratch.states.push_back(searches_[s].state.data());
  }
  if (table.narrow != nullptr)
    multiply_group(block, table, scratch);
  else
    kernels_.score({.states = scratch.states,
                    .table = table.items.values.data() + block.begin * table.items.columns,
                    .factors = table.factors.data() + block.begin,
                    .rows = block.size(),
                    .columns = table.items.columns,
                    .out = scratch.out});
  for (std::size_t i = 0; i < scratch.searches.size(); ++i) {
    const std::size_t s = scratch.searches[i];
    const std::span<const Token> rows = rows_in(searches_[s], block, found[s]);
    take_scores(searches_[s], block, rows, {scratch.out[i], block.size()}, found[s], scratch);
    found[s].next += rows.size();
  }
  scratch.searches.clear();
}

// Multiplies the group's states with a block of the table in bf16. The product computes whole panels, so the
// first block also has the padding row.
void ItemSearch::multiply_group(RowRange block, const ItemTable& table, Scratch& scratch) const {
  const PackedMatrix& rows = table.narrow->rows;
  const std::size_t width = rows.panel_width(), columns = rows.columns();
  const std::size_t first = block.begin / width * width;
  scratch.inputs.resize(group_searches * columns);
  for (std::size_t s = 0; s < scratch.states.size(); ++s)
    std::copy_n(scratch.states[s], columns, scratch.inputs.data() + s * columns);
  ProductTask task;
  task.in = scratch.inputs.data();
  task.in_stride = columns;
  task.out = scratch.scores.data() - first;  // the product writes to its panels' columns
  task.out_stride = block_stride;
  task.rows = scratch.states.size();
  task.panel_begin = first / width;
  task.panel_end = (block.end + width - 1) / width;
  kernels_.product->run(rows, task);
  const float* const factors = table.factors.data() + block.begin;
  for (float*& out : scratch.out) {
    out += block.begin - first;
    for (std::size_t r = 0; r < block.size(); ++r) out[r] *= factors[r];
  }
}

// Takes the scores of a whole block, of which the search may find `rows`.
void ItemSearch::take_scores(const OneSearch& one, RowRange block, std::span<const Token> rows,
                             std::span<const float> scores, Found& found, Scratch& scratch) const {
  const bool whole = one.any_row || rows.size() == block.size();
  if (one.over_all || whole) found.total.add(kernels_.sum(scores.data(), scores.size()));
  if (whole) return found.best.offer(scores, static_cast<Token>(block.begin));
  if (rows.empty()) return;
  scratch.some.resize(block_rows);
  for (std::size_t i = 0; i < rows.size(); ++i)
    scratch.some[i] = scores[static_cast<std::size_t>(rows[i]) - block.begin];
  const std::span<const float> some(scratch.some.data(), rows.size());
  if (!one.over_all) found.total.add(kernels_.sum(some.data(), some.size()));
  found.best.offer(some, rows);
}

// Scores only the named rows.
void ItemSearch::score_named(const OneSearch& one, std::span<const Token> rows, const ItemTable& table,
                             Found& found, Scratch& scratch) const {
  scratch.some.resize(block_rows);
  const float* const state = one.state.data();
  float* const some = scratch.some.data();
  kernels_.readout({&state, 1}, table.items, rows, {&some, 1});
  for (std::size_t i = 0; i < rows.size(); ++i) some[i] *= table.factors[static_cast<std::size_t>(rows[i])];
  found.total.add(kernels_.sum(some, rows.size()));
  found.best.offer(std::span<const float>(some, rows.size()), rows);
}

void ItemSearch::write_beams(const OneSearch& one, const Found& found, std::span<const ScoredRow> best,
                             std::vector<Beam>& beams) {
  beams.clear();
  if (found.total.sum == 0 && best.empty()) return;  // the search may find nothing
  const double total = found.total.log();
  if (!std::isfinite(total)) {
    beams.assign(1, {{}, std::numeric_limits<double>::quiet_NaN()});
    return;
  }
  beams.reserve(best.size());
  for (const ScoredRow& row : best) {
    const double value = std::min(0.0, double{row.score} - total);
    beams.push_back({{row.row}, value, {}, double{row.score}});
    if (one.search->by_token) beams.back().by_token.assign(1, value);
  }
}

}  // namespace troupe::kernels
