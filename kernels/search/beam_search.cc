// Advances one request's beam search from level to level, whatever computes the logits. Only paths
// of catalog items that are not denied go on.
#include "kernels/search/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/search/reorder.h"

namespace troupe::kernels {
namespace {

std::vector<std::span<const Token>> runs_of(std::span<const Tokens> paths) {
  std::vector<std::span<const Token>> runs;
  runs.reserve(paths.size());
  for (const Tokens& path : paths) runs.emplace_back(path.begin(), path.end());
  return runs;
}

}  // namespace

double log_sum_exp(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  bool finite = true;
  for (const float logit : logits) {
    finite = finite && std::isfinite(logit);
    sum += std::exp(logit - most);
  }
  return finite ? most + std::log(sum) : std::numeric_limits<double>::quiet_NaN();
}

void BeamSearch::begin(const Search& search, std::shared_ptr<const PathIndex> paths, std::uint32_t vocabulary,
                       SelectBest* select) {
  TROUPE_CHECK(search.width > 0, "search: expected a width above 0");
  select_ = select;
  paths_ =
      search.allowed.empty() ? std::move(paths) : std::make_shared<const PathIndex>(runs_of(search.allowed));
  TROUPE_CHECK(paths_ || search.steps > 0, "search: expected steps above 0, as there is no index of paths");
  vocabulary_ = vocabulary;
  steps_ = paths_ ? paths_->depth() : search.steps;
  width_ = search.width;
  results_ = search.results;
  by_token_ = search.by_token;
  stop();
  for (std::vector<KeptPath>* kept : {&kept_, &next_}) kept->reserve(width_);
  for (auto* numbers : {&best_first_, &rows_, &row_parents_, &slots_before_}) numbers->reserve(width_);
  row_tokens_.reserve(width_);
  extensions_.reserve(width_);
  path_tokens_.resize(std::max(path_tokens_.size(), std::size_t{width_} * steps_));
  if (by_token_) token_values_.resize(std::max(token_values_.size(), std::size_t{width_} * steps_));
  deny(search.denied);
  const bool nothing_left = denied_ && dead_[PathIndex::root];
  if (children(KeptPath()) == 0 || nothing_left) return;
  kept_.push_back({.denied = denied_ ? PathIndex::root : PathIndex::none});
  list_rows();
}

// Returns true if this is a whole path of the search.
bool BeamSearch::is_path(const Tokens& path) const {
  if (!paths_) return path.size() == steps_;
  const PathIndex::Node node = paths_->find({path.begin(), path.end()});
  return node != PathIndex::none && node != PathIndex::root && paths_->is_leaf(node);
}

std::size_t BeamSearch::children(const KeptPath& kept) const {
  return paths_ ? paths_->next(kept.node).size() : vocabulary_;
}

// Builds an index of the denied paths and marks its dead nodes, from the leaves up: a node is dead
// if it is a denied path or if all that may follow it is dead.
void BeamSearch::deny(std::span<const Tokens> denied) {
  denied_.reset();
  std::vector<std::span<const Token>> found;
  for (const Tokens& path : denied)
    if (is_path(path)) found.emplace_back(path.begin(), path.end());
  if (found.empty()) return;
  denied_.emplace(found);
  std::vector<KeptPath> nodes(denied_->nodes());  // the nodes of paths_ with the same paths
  for (PathIndex::Node node = 0; paths_ && node < nodes.size(); ++node)
    for (std::uint32_t i = 0; i < denied_->next(node).size(); ++i)
      nodes[denied_->first_child(node) + i].node = paths_->child(nodes[node].node, denied_->next(node)[i]);
  dead_.assign(nodes.size(), 0);
  for (PathIndex::Node node = denied_->nodes(); node-- > 0;) {
    const auto first = dead_.begin() + denied_->first_child(node);
    const std::size_t entered = denied_->next(node).size();
    dead_[node] = entered == 0 || (entered == children(nodes[node]) &&
                                   std::count(first, first + static_cast<std::ptrdiff_t>(entered), 1) ==
                                       static_cast<std::ptrdiff_t>(entered));
  }
  barred_.reserve(dead_.size());
}

// Returns the number of `token` among the tokens that may follow `kept`, of which it must be one.
std::uint32_t BeamSearch::child_of(const KeptPath& kept, Token token) const {
  return paths_ ? paths_->child(kept.node, token) - paths_->first_child(kept.node)
                : static_cast<std::uint32_t>(token);
}

std::span<const std::uint32_t> BeamSearch::barred_children(const KeptPath& kept) {
  if (kept.denied == PathIndex::none) return {};
  const std::size_t before = barred_.size();
  const std::span<const Token> tokens = denied_->next(kept.denied);
  for (std::uint32_t i = 0; i < tokens.size(); ++i)
    if (dead_[denied_->first_child(kept.denied) + i]) barred_.push_back(child_of(kept, tokens[i]));
  return std::span<const std::uint32_t>(barred_).subspan(before);
}

std::size_t BeamSearch::denied_children(std::uint32_t row) const {
  const KeptPath& kept = kept_[rows_[row]];
  return kept.denied == PathIndex::none ? 0 : denied_->next(kept.denied).size();
}

// Enough for the kept children, even if denied ones rank before them.
std::uint32_t BeamSearch::enough(std::uint32_t row) const {
  return static_cast<std::uint32_t>(std::min(width_ + denied_children(row), children(kept_[rows_[row]])));
}

std::uint32_t BeamSearch::enough(std::uint32_t first, std::uint32_t rows) const {
  std::size_t most = width_;
  for (std::uint32_t row = first; row < first + rows; ++row) most += denied_children(row);
  return static_cast<std::uint32_t>(most);
}

void BeamSearch::add_extensions(std::span<const double> log_totals, std::span<const float* const> logits,
                                std::span<const LikelyChildren> likely) {
  extensions_.clear();
  barred_.clear();
  for (const std::uint32_t slot : best_first_) {
    const KeptPath& kept = kept_[slot];
    if (kept.whole || logits[kept.row] == nullptr) continue;
    const LikelyChildren some = likely.empty() ? LikelyChildren() : likely[kept.row];
    const std::size_t count = some.empty() ? children(kept) : some.size();
    extensions_.push_back(
        {kept.value, log_totals[kept.row], slot, {logits[kept.row], count}, barred_children(kept), some});
  }
}

bool BeamSearch::advance(std::span<const double> log_totals, std::span<const float* const> logits,
                         std::span<const LikelyChildren> likely) {
  TROUPE_CHECK(!done() && log_totals.size() == rows() && logits.size() == rows() &&
                   (likely.empty() || likely.size() == rows()),
               "search: expected logits for each row of this level");
  chosen_.clear();
  for (std::uint32_t slot = 0; slot < kept_.size(); ++slot)
    if (kept_[slot].whole) chosen_.push_back({kept_[slot].value, candidate_key(slot, 0)});
  add_extensions(log_totals, logits, likely);
  const bool finite =
      std::all_of(log_totals.begin(), log_totals.end(), [](double t) { return std::isfinite(t); });
  if (!finite || !select_(extensions_, width_, chosen_)) {
    stop();
    return false;
  }
  start_next_level();
  return true;
}

BeamSearch::KeptPath BeamSearch::continued(const KeptPath& kept, const Candidate& candidate) const {
  KeptPath longer = kept;
  longer.value = candidate.value;
  longer.added = candidate.value - kept.value;
  longer.length = kept.length + 1;
  longer.token = static_cast<Token>(candidate.child());
  if (paths_) {
    longer.node = paths_->first_child(kept.node) + candidate.child();
    longer.token = paths_->next(kept.node)[candidate.child()];
  }
  longer.whole = paths_ ? paths_->is_leaf(longer.node) : longer.length == steps_;
  if (kept.denied != PathIndex::none) longer.denied = denied_->child(kept.denied, longer.token);
  return longer;
}

// Advances from the chosen candidates to the next level.
void BeamSearch::start_next_level() {
  std::sort(chosen_.begin(), chosen_.end(),
            [](const Candidate& a, const Candidate& b) { return a.key < b.key; });
  next_.clear();
  slots_before_.clear();
  for (const Candidate& candidate : chosen_) {
    const KeptPath& before = kept_[candidate.slot()];
    next_.push_back(before.whole ? before : continued(before, candidate));
    slots_before_.push_back(candidate.slot());
  }
  reorder_rows(reinterpret_cast<std::byte*>(path_tokens_.data()), steps_ * sizeof(Token), slots_before_);
  if (by_token_)
    reorder_rows(reinterpret_cast<std::byte*>(token_values_.data()), steps_ * sizeof(double), slots_before_);
  kept_.swap(next_);
  ++level_;
  list_rows();
}

// Lists the rows of kept_, in its order. At entry, `row` of each path is its row of the previous
// level, and `token` is not in its path yet. (For a path that was whole before, the token is
// written where nothing reads it.)
void BeamSearch::list_rows() {
  rows_.clear();
  row_tokens_.clear();
  row_parents_.clear();
  for (std::uint32_t slot = 0; slot < kept_.size(); ++slot) {
    KeptPath& kept = kept_[slot];
    if (level_ > 0) {
      const std::size_t last = std::size_t{slot} * steps_ + level_ - 1;
      path_tokens_[last] = kept.token;
      if (by_token_) token_values_[last] = kept.added;
    }
    if (kept.whole) continue;
    if (level_ > 0) {
      row_tokens_.push_back(kept.token);
      row_parents_.push_back(kept.row);
    }
    kept.row = rows();
    rows_.push_back(slot);
  }
  best_first_.resize(kept_.size());
  std::iota(best_first_.begin(), best_first_.end(), 0);
  std::sort(best_first_.begin(), best_first_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return kept_[a].value != kept_[b].value ? kept_[a].value > kept_[b].value : a < b;
  });
}

void BeamSearch::stop() {
  level_ = 0;
  kept_.clear();
  list_rows();
}

void BeamSearch::finish(std::vector<Beam>& out) const {
  std::size_t count = 0;
  for (const std::uint32_t slot : best_first_) {
    if (!kept_[slot].whole || count == results_) continue;
    if (out.size() <= count) out.emplace_back();
    const std::size_t first = std::size_t{slot} * steps_;
    const auto path = std::span(path_tokens_).subspan(first, kept_[slot].length);
    out[count].path.assign(path.begin(), path.end());
    out[count].by_token.clear();
    if (by_token_) {
      const auto values = std::span(token_values_).subspan(first, kept_[slot].length);
      out[count].by_token.assign(values.begin(), values.end());
    }
    out[count++].log_probability = kept_[slot].value;
  }
  out.resize(count);
}

}  // namespace troupe::kernels
