// Runs the passes of models that score items: plans and memory of a pass, its rows of the item embedding, and
// the readouts at its end.
#include "kernels/cpu/engine/item_executor.h"

#include <numeric>
#include <utility>

#include "kernels/executor/passes.h"

namespace troupe::kernels {
namespace {

constexpr std::size_t item_chunk_rows_max = 192;

}  // namespace

ItemExecutor::ItemExecutor(std::shared_ptr<const PackedItems> items, ItemModel model, SharedTeams shared,
                           std::uint32_t executor, const DecoderOptions& options,
                           const ItemModelKernels& kernels)
    : model_(std::move(model)),
      options_(options),
      shared_(std::move(shared)),
      planner_(model_.limits, model_.layout, model_.sees_ahead),
      kv_(model_.layout),
      items_(std::move(items)),
      team_(*(*shared_.teams)[executor % shared_.teams->size()]),
      item_kernels_(kernels),
      no_turns_({}),
      search_(kernels.search) {
  workspaces_.resize(team_.cores());
}

void ItemExecutor::run(std::span<const Request> requests, std::vector<Reply>& replies) {
  start_replies(requests, replies);
  run_in_passes(search_.begin(requests), replies,
                [this](auto some, auto answers) { return run_pass(some, answers); });
  if (search_.pending()) find_items(replies);
  if (times_ != nullptr) collect_times(std::span(workspaces_), *times_);
}

void ItemExecutor::find_items(std::span<Reply> replies) {
  const auto norm = [this](std::vector<float>& state) {
    model_.scores.norm_state(*item_kernels_.gates, state.data(), state.data());
    state.resize(model_.scores.columns);
  };
  const NarrowTable* const narrow = narrow_items(*items_->narrow, items_->embedding, items_->factors,
                                                 options_.weights, item_kernels_.search.product->panel_width);
  search_.finish(replies, {items_->embedding, items_->factors, norm, narrow}, team_,
                 timed(workspaces_[0], &PassTimes::search));
}

std::string ItemExecutor::run_pass(std::span<const Request> requests, std::span<Reply> replies) {
  const std::size_t tokens = computed_tokens(requests);
  if (std::string beyond = validate_tokens(tokens, model_.memory.tokens_max); !beyond.empty()) return beyond;
  if (tokens <= model_.memory.tokens_kept) return compute(requests, replies);
  return run_large_pass(
      *shared_.large, [&] { return compute(requests, replies); }, [&] { free_memory(); });
}

void ItemExecutor::free_memory() {
  const std::size_t rows = model_.memory.tokens_kept * model_.token_rows;
  state_.shrink(rows * model_.widths.state);
  projections_.shrink(rows * model_.widths.qkv);
  mixed_.shrink(rows * model_.widths.mixed);
  kv_.shrink(rows);
  gathered_ = {};
  read_items_ = {};
  for (ItemWorkspace& w : workspaces_) w.attend = {};
  planner_ = BatchPlanner(model_.limits, model_.layout, model_.sees_ahead);
  batch_ = nullptr;
}

std::string ItemExecutor::compute(std::span<const Request> requests, std::span<Reply> replies) {
  team_.bind_caller();
  Team::Pass pass(team_);
  {
    PartTimer timer(timed(workspaces_[0], &PassTimes::planning));
    if (std::string beyond = plan_rows(requests); !beyond.empty()) return beyond;
    start(pass.workers());
  }
  if (items_->table) gather_items();
  run_layers(pass);
  read(requests, replies);
  return "";
}

// Allocates the pass's memory.
void ItemExecutor::start(std::uint32_t workers) {
  const std::uint32_t heads = model_.layout.kv_heads;
  rows_ = batch_->rows();
  chunk_rows_ = chunk_rows(rows_, workers, item_chunk_rows_max);
  cut_attention(*batch_, nullptr, heads, heads, workers, all_rows_);
  if (model_.joins_groups) join_groups(*batch_, all_rows_, joined_);
  cut_attention(*batch_, &batch_->read, heads, heads, workers, read_rows_);
  state_.reserve(rows_ * model_.widths.state);
  projections_.reserve(rows_ * model_.widths.qkv);
  mixed_.reserve(rows_ * model_.widths.mixed);
  for (ItemWorkspace& w : workspaces_)  // a core that is busy now may join this pass later
    w.chunk.reserve(chunk_rows_ * model_.chunk_width);
  share_attention_capacity(std::span(workspaces_));
  kv_.reserve(batch_->rows());
}

// Gathers the items of all tokens to where a family embeds them, and behind them the items that are
// read out, in one call: each row is fetched once.
void ItemExecutor::gather_items() {
  PartTimer timer(timed(workspaces_[0], &PassTimes::embedding));
  gathered_.assign(batch_->tokens.begin(), batch_->tokens.end());
  const std::span<const BatchReadout> all = batch_->readouts;
  gathered_at_.assign(all.size(), 0);
  for (std::size_t first = 0; first < all.size(); first = end_of_alike(all, first)) {
    gathered_at_[first] = gathered_.size();
    const std::span<const Token> rows = all[first].vocabulary_rows;
    gathered_.insert(gathered_.end(), rows.begin(), rows.end());
  }
  state_.reserve(gathered_.size() * model_.widths.state);
  items_->table->fetch(gathered_, state_.data());
}

void ItemExecutor::keep_read_rows(std::size_t projections) {
  const std::vector<std::uint32_t>& read_rows = batch_->read.rows;
  const std::size_t stride = model_.widths.qkv;
  for (std::size_t to = 0; to < read_rows.size(); ++to) {
    const std::size_t from = read_rows[to];
    if (from == to) continue;
    std::copy_n(state(from), model_.widths.state, state(to));
    std::copy_n(projections_.data() + from * stride, projections, projections_.data() + to * stride);
  }
  rows_ = read_rows.size();
}

void ItemExecutor::read(std::span<const Request> requests, std::span<Reply> replies) {
  PartTimer timer(timed(workspaces_[0], &PassTimes::readout));
  for (std::size_t i = 0; i < requests.size(); ++i)
    replies[i].readouts.resize(requests[i].plan->readouts.size());
  const std::span<const BatchReadout> all = batch_->readouts;
  for (std::size_t first = 0, end = 0; first < all.size(); first = end) {
    end = end_of_alike(all, first);
    const BatchReadout& readout = all[first];
    std::vector<float>& out = replies[readout.request].readouts[readout.index];
    if (readout.what == Readout::What::state)
      out.assign(state(readout.read_row), state(readout.read_row) + model_.widths.state);
    else if (readout.what == Readout::What::head)
      read_head(readout, out);
    else if (items_->table)
      read_items(all.subspan(first, end - first), read_items_, take_gathered(first), replies);
    else
      read_items(all.subspan(first, end - first), items_->embedding, readout.vocabulary_rows, replies);
  }
}

// Sets `read_items_` to the items that the readout `first` reads. Returns their rows in it.
std::span<const Token> ItemExecutor::take_gathered(std::size_t first) {
  const std::size_t rows = batch_->readouts[first].vocabulary_rows.size();
  const float* const from = state(gathered_at_[first]);
  read_items_.rows = static_cast<std::uint32_t>(rows);
  read_items_.columns = static_cast<std::uint32_t>(model_.widths.state);
  read_items_.values.assign(from, from + rows * model_.widths.state);
  read_item_rows_.resize(rows);
  std::iota(read_item_rows_.begin(), read_item_rows_.end(), 0);
  return read_item_rows_;
}

// Computes logits of the same rows of `items` for all of these readouts.
void ItemExecutor::read_items(std::span<const BatchReadout> readouts, const Matrix& items,
                              std::span<const Token> rows, std::span<Reply> replies) {
  const std::size_t columns = model_.scores.columns;
  normed_states_.resize(readouts.size() * columns);
  readout_states_.clear();
  readout_out_.clear();
  for (std::size_t i = 0; i < readouts.size(); ++i) {
    float* const normed = normed_states_.data() + i * columns;
    model_.scores.norm_state(*item_kernels_.gates, state(readouts[i].read_row), normed);
    std::vector<float>& logits = replies[readouts[i].request].readouts[readouts[i].index];
    logits.resize(rows.size());
    readout_states_.push_back(normed);
    readout_out_.push_back(logits.data());
  }
  item_kernels_.readout(readout_states_, items, rows, readout_out_);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto row = static_cast<std::size_t>(rows[r]);
    const float factor =
        items_->table ? model_.scores.factor_of(&items.values[row * items.columns]) : items_->factors[row];
    for (float* const logits : readout_out_) logits[r] *= factor;
  }
}

}  // namespace troupe::kernels
