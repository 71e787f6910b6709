// HSTU on the CPU: one forward pass runs all computed tokens of all requests through the layers as
// rows of one matrix.
#include "kernels/hstu/cpu_hstu.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/cpu/engine/decoder_workspace.h"
#include "kernels/executor/passes.h"

namespace troupe::kernels {
namespace {

constexpr std::size_t hstu_chunk_rows_max = 192;

// Puts rows of further tokens one behind the other.
Matrix stacked(std::vector<Matrix> tables, Matrix last) {
  Matrix all{0, last.columns, {}};
  tables.push_back(std::move(last));
  for (Matrix& table : tables) {
    if (table.rows == 0) continue;
    all.columns = table.columns;
    all.rows += table.rows;
    all.values.insert(all.values.end(), table.values.begin(), table.values.end());
  }
  return all;
}

PackedHead pack_head(const HstuConfig& c, HstuWeights& weights, const Linear::Form& form,
                     WeightMemory& memory) {
  PackedHead head{{}, c.head_activation};
  if (c.tasks == 0) return head;
  if (!c.nvidia()) {
    head.layers.emplace_back(std::move(weights.fc1), std::move(weights.fc1_bias), form, memory);
    head.layers.emplace_back(std::move(weights.fc2), std::move(weights.fc2_bias), form, memory);
  }
  for (std::size_t i = 0; i < weights.head.size(); ++i)
    head.layers.emplace_back(std::move(weights.head[i]), std::move(weights.head_bias[i]), form, memory);
  return head;
}

}  // namespace

PackedHstu pack_hstu(HstuModel model, const Linear::Form& form) {
  const HstuConfig& c = model.config;
  HstuWeights& weights = model.weights;
  TROUPE_CHECK(weights.layers.size() == c.layers,
               "hstu: expected as many layers of weights as the configuration has");
  PackedHstu packed;
  packed.config = c;
  packed.buckets = TimeBuckets(c.bucket_divisor, c.time_buckets);
  packed.items = std::move(weights.items);
  packed.positions = std::move(weights.positions);
  if (c.nvidia())
    packed.further = stacked(std::move(weights.contexts), std::move(weights.actions));
  else
    packed.actions = std::move(weights.actions);
  packed.table = std::move(model.items);
  TROUPE_CHECK(packed.items.rows == c.vocabulary && packed.items.columns == c.item_columns(),
               "hstu: expected one row of features per item");
  TROUPE_CHECK(!packed.table || (packed.table->rows() == c.vocabulary && packed.table->columns() == c.hidden),
               "hstu: expected a table with one row of features per item");
  TROUPE_CHECK(!packed.table || c.actions + c.contexts() == 0,
               "hstu: a table of items apart holds no actions and no contextual features");
  WeightMemory memory;
  for (HstuLayer& layer : weights.layers)
    packed.layers.push_back({Linear(std::move(layer.uvqk), std::move(layer.uvqk_bias), form, memory),
                             Linear(std::move(layer.output), std::move(layer.output_bias), form, memory),
                             std::move(layer.position_weight), std::move(layer.time_weight),
                             std::move(layer.input_norm), std::move(layer.input_norm_bias),
                             std::move(layer.output_norm), std::move(layer.output_norm_bias)});
  packed.head = pack_head(c, weights, form, memory);
  for (std::size_t item = 0; !packed.table && item < c.vocabulary; ++item)
    packed.item_scales.push_back(item_scale_of(c, &packed.items.values[item * c.item_columns()]));
  return packed;
}

CpuHstu::CpuHstu(std::shared_ptr<const PackedHstu> weights, std::shared_ptr<const Teams> teams,
                 std::shared_ptr<std::mutex> large, std::uint32_t executor, const DecoderOptions& options,
                 const HstuKernels& kernels)
    : weights_(std::move(weights)),
      teams_(std::move(teams)),
      large_(std::move(large)),
      team_(*(*teams_)[executor % teams_->size()]),
      c_(weights_->config),
      options_(options),
      memory_(pass_memory(c_, options)),
      layout_(kv_layout(c_, options.page_tokens, options.kv)),
      pages_(page_layout(c_, options)),
      kernels_(kernels),
      event_tokens_(c_, layout_),
      planner_(token_limits(c_), layout_, c_.softmax ? c_.positions : c_.context_tokens),
      kv_(layout_),
      no_turns_({}),
      bias_(c_, weights_->buckets),
      search_(with_product({}, kernels.product)),
      workspaces_(team_.cores()) {}

void CpuHstu::run(std::span<const Request> requests, std::vector<Reply>& replies) {
  start_replies(requests, replies);
  run_in_passes(search_.begin(requests), replies,
                [this](auto some, auto answers) { return run_pass(some, answers); });
  if (search_.pending())
    search_.finish(replies,
                   {weights_->items, weights_->item_scales,
                    [this](std::vector<float>& state) {
                      norm_state(state.data(), state.data());
                      state.resize(c_.item_columns());
                    },
                    narrow_items(*weights_->narrow, weights_->items, weights_->item_scales, options_.weights,
                                 kernels_.product->panel_width)},
                   team_, timed(workspaces_[0], &PassTimes::search));
  if (times_ != nullptr) collect_times(std::span(workspaces_), *times_);
}

std::string CpuHstu::run_pass(std::span<const Request> requests, std::span<Reply> replies) {
  const std::size_t tokens = computed_tokens(requests);
  if (std::string beyond = validate_tokens(tokens, memory_.tokens_max); !beyond.empty()) return beyond;
  if (tokens <= memory_.tokens_kept) return compute(requests, replies);
  return run_large_pass(
      *large_, [&] { return compute(requests, replies); }, [&] { free_memory(); });
}

// Frees a large pass's memory, so that the next large pass may be any executor's.
void CpuHstu::free_memory() {
  const std::size_t rows = memory_.tokens_kept * c_.event_tokens();
  state_.shrink(rows * c_.hidden);
  uvqk_.shrink(rows * uvqk_width());
  mixed_.shrink(rows * c_.width());
  kv_.shrink(rows);
  bias_.free_memory();
  gathered_ = {};
  read_items_ = {};
  for (HstuWorkspace& w : workspaces_) w.attend = {};
  planner_ = BatchPlanner(token_limits(c_), layout_, c_.softmax ? c_.positions : c_.context_tokens);
  batch_ = nullptr;
}

std::string CpuHstu::compute(std::span<const Request> requests, std::span<Reply> replies) {
  team_.bind_caller();
  Team::Pass pass(team_);
  {
    PartTimer timer(timed(workspaces_[0], &PassTimes::planning));
    batch_ = &planner_.plan(c_.event_tokens() > 1 ? event_tokens_.of(requests) : requests);
    if (std::string beyond = bias_.note(*batch_, memory_.steps_max); !beyond.empty()) return beyond;
    start(pass.workers());
  }
  if (weights_->table) gather_items();
  for (std::uint32_t layer = 0; layer < c_.layers; ++layer) {
    run_rows(pass, layer);
    run_attention(pass, layer);
  }
  for_rows(pass, [&](Rows rows, HstuWorkspace& w) { add_output(weights_->layers.back(), rows, w); });
  read(requests, replies);
  return "";
}

// Allocates the pass's memory.
void CpuHstu::start(std::uint32_t workers) {
  rows_ = batch_->rows();
  chunk_rows_ = chunk_rows(rows_, workers, hstu_chunk_rows_max);
  cut_attention(*batch_, nullptr, c_.heads, c_.heads, workers, all_rows_);
  cut_attention(*batch_, &batch_->read, c_.heads, c_.heads, workers, read_rows_);
  state_.reserve(rows_ * c_.hidden);
  uvqk_.reserve(rows_ * uvqk_width());
  mixed_.reserve(rows_ * c_.width());
  for (HstuWorkspace& workspace : workspaces_)  // a core that is busy now may join this pass later
    workspace.normed.reserve(chunk_rows_ * std::max(c_.hidden, c_.mixed()));
  share_attention_capacity(
      std::span(workspaces_), [](HstuWorkspace & w) -> auto& { return w.softmax; },
      [](HstuWorkspace & w) -> auto& { return w.row_times; },
      [](HstuWorkspace & w) -> auto& { return w.row_at; });
  kv_.reserve(batch_->rows());
}

// Gathers the items of all tokens to where `embed` reads them, and behind them the items that are
// read out, in one call: each row is fetched once.
void CpuHstu::gather_items() {
  PartTimer timer(timed(workspaces_[0], &PassTimes::embedding));
  gathered_.assign(batch_->tokens.begin(), batch_->tokens.end());
  gathered_at_.assign(batch_->readouts.size(), 0);
  for (std::size_t first = 0; first < batch_->readouts.size(); first = end_of_alike(first)) {
    gathered_at_[first] = gathered_.size();
    const std::span<const Token> rows = batch_->readouts[first].vocabulary_rows;
    gathered_.insert(gathered_.end(), rows.begin(), rows.end());
  }
  state_.reserve(gathered_.size() * c_.hidden);
  weights_->table->fetch(gathered_, state_.data());
}

// Does `work` for all rows, chunk by chunk, shared among idle cores.
template <class Work>
void CpuHstu::for_rows(Team::Pass& pass, Work&& work) {
  const double row_operations = 2.0 * c_.hidden * static_cast<double>(c_.projected() + c_.mixed());
  run_chunks(pass, rows_, chunk_rows_, row_operations,
             [&](Rows rows, std::uint32_t worker) { work(rows, workspaces_[worker]); });
}

// Computes a layer's gates, values, queries and keys from the mixed heads of the layer before (or
// the embedding).
void CpuHstu::run_rows(Team::Pass& pass, std::uint32_t layer) {
  for_rows(pass, [&](Rows rows, HstuWorkspace& w) {
    if (layer == 0)
      embed(rows, w);
    else
      add_output(weights_->layers[layer - 1], rows, w);
    make_projections(weights_->layers[layer], rows, w);
  });
}

const float* CpuHstu::embedding(Token token) const {
  const auto row = static_cast<std::size_t>(token);
  return row < c_.vocabulary ? &weights_->items.values[row * c_.item_columns()]
                             : &weights_->further.values[(row - c_.vocabulary) * c_.hidden];
}

void CpuHstu::embed(Rows rows, HstuWorkspace& w) {
  PartTimer timer(timed(w, &PassTimes::embedding));
  const float scale = c_.scales_input ? std::sqrt(static_cast<float>(c_.hidden)) : 1;
  const std::size_t columns = c_.item_columns(), features = token_limits(c_).features;
  for (std::size_t row = rows.begin; row < rows.begin + rows.count; ++row) {
    float* const out = state_.data() + row * c_.hidden;
    const float* const item = weights_->table ? out : embedding(batch_->tokens[row]);
    for (std::size_t i = 0; i < columns; ++i) out[i] = scale * item[i];
    if (columns < c_.hidden) {
      const auto action = static_cast<std::size_t>(batch_->features[(row + 1) * features - 1]);
      const float* const of_action = &weights_->actions.values[action * c_.action_dim];
      for (std::size_t i = columns; i < c_.hidden; ++i) out[i] = scale * of_action[i - columns];
    }
    if (c_.positions == 0) continue;
    const std::size_t at = std::min(batch_->positions[row], c_.positions - 1);
    const float* const position = &weights_->positions.values[at * c_.hidden];
    for (std::size_t i = 0; i < c_.hidden; ++i) out[i] += position[i];
  }
}

void CpuHstu::make_projections(const PackedHstuLayer& layer, Rows rows, HstuWorkspace& w) {
  const std::size_t width = c_.width(), keys = 2 * width + c_.query_width(), stride = uvqk_width();
  float* const uvqk = uvqk_.data() + rows.begin * stride;
  NormTask norm{.in = state(rows.begin), .out = w.normed.data()};
  norm.in_stride = norm.out_stride = norm.width = c_.hidden;
  norm.rows = rows.count;
  norm.epsilon = static_cast<float>(c_.epsilon);
  if (c_.norms_input()) norm.weight = layer.input_norm.data(), norm.bias = layer.input_norm_bias.data();
  {
    PartTimer timer(timed(w, &PassTimes::elementwise));
    kernels_.gates->norm(norm);
  }
  {
    PartTimer timer(timed(w, &PassTimes::linear));
    layer.uvqk.run(w.normed.data(), uvqk, rows.count);
  }
  {
    PartTimer timer(timed(w, &PassTimes::elementwise));
    if (c_.activated() > 0) kernels_.gates->silu(uvqk, stride, rows.count, c_.activated());
  }
  PartTimer timer(timed(w, &PassTimes::keys_values));
  kv_.store(static_cast<std::uint32_t>(rows.begin), static_cast<std::uint32_t>(rows.count), uvqk + keys,
            uvqk + width, stride);
}

// Keys and values that are kept go to their pages while attention runs: both only read this
// layer's.
void CpuHstu::run_attention(Team::Pass& pass, std::uint32_t layer) {
  if (is_last(layer)) keep_read_rows();
  const AttentionParts& attention = is_last(layer) ? read_rows_ : all_rows_;
  const std::size_t parts = attention.parts.size();
  const double widths = c_.width() + c_.query_width();
  double operations = 2 * attention.pairs * widths;
  for (const KeptSegment& segment : batch_->kept) operations += copies_cost * segment.tokens * widths;
  pass.run(parts + batch_->kept.size(), operations, [&](std::size_t part, std::uint32_t worker) {
    HstuWorkspace& w = workspaces_[worker];
    if (part < parts) return attend_part(attention.parts[part], layer, w);
    PartTimer timer(timed(w, &PassTimes::keys_values));
    kv_.keep(batch_->kept[part - parts], layer);
  });
}

// Moves the rows with a readout to the front; the others end here. The remaining rows need their
// gates and queries.
void CpuHstu::keep_read_rows() {
  const std::vector<std::uint32_t>& read_rows = batch_->read.rows;
  const std::size_t stride = uvqk_width();
  for (std::size_t to = 0; to < read_rows.size(); ++to) {
    const std::size_t from = read_rows[to];
    if (from == to) continue;
    std::copy_n(state_.data() + from * c_.hidden, c_.hidden, state_.data() + to * c_.hidden);
    std::copy_n(uvqk_.data() + from * stride, 2 * c_.width() + c_.query_width(), uvqk_.data() + to * stride);
  }
  rows_ = read_rows.size();
}

void CpuHstu::attend_part(const AttentionPart& part, std::uint32_t layer, HstuWorkspace& w) {
  PartTimer timer(timed(w, &PassTimes::attention));
  const RowGroup& group = batch_->groups[part.group];
  const HstuBias::Group& keys = bias_.groups()[part.group];
  const HstuBias::Rows& of_rows = is_last(layer) ? bias_.read_rows() : bias_.rows();
  const std::size_t rows = part.row_end - part.row_begin, begin = part.row_begin, width = c_.width();
  const auto interval = [&](const auto& all) {
    return all.empty() ? std::span(all) : std::span(all).subspan(begin, rows);
  };
  SiluAttendTask task;
  task.query_stride = uvqk_width();
  task.out_stride = width;
  task.rows = static_cast<std::uint32_t>(rows);
  task.head_dim = c_.head_dim;
  task.value_dim = c_.numbers_of_value();
  task.scale = static_cast<float>(c_.scale);
  task.factor = static_cast<float>(1 / c_.normaliser);
  task.context_begin = interval(of_rows.context_begin);
  task.tail_begin = interval(of_rows.tail_begin);
  task.tail_end = interval(is_last(layer) ? batch_->read.end : batch_->visible_end);
  task.queries = uvqk_.data() + begin * task.query_stride + 2 * width + std::size_t{part.head} * c_.head_dim;
  task.out = mixed_.data() + begin * width + std::size_t{part.head} * task.value_dim;
  kv_.resolve(std::span(batch_->spans).subspan(group.span_begin, group.span_end - group.span_begin),
              no_turns_, layer, part.head, w.context);
  task.context = w.context;
  w.tail.assign(1, kv_.rows(part.head, group.row_begin, *std::ranges::max_element(task.tail_end)));
  task.tail = w.tail;
  task.may_round = options_.weights != WeightFormat::f32;
  if (c_.biased()) {
    const PackedHstuLayer& weights = weights_->layers[layer];
    task.bias.by_distance = weights.position_weight.data() + c_.positions - 1;
    task.bias.by_bucket = weights.time_weight;
    task.bias.row_positions = interval(of_rows.positions);
    task.bias.key_positions = keys.key_positions;
    task.bias.steps = bias_.steps();
    task.bias.step_begin = interval(of_rows.step_begin);
    task.bias.step_end = interval(of_rows.step_end);
  }
  if (!c_.softmax) return kernels_.attend(task, w.attend);
  attend_softmax(std::move(task), part, is_last(layer), w);
}

// Adds what the softmax needs beside the pairs: rows' indices and times, and the request's time.
void CpuHstu::attend_softmax(SiluAttendTask task, const AttentionPart& part, bool read, HstuWorkspace& w) {
  const RowGroup& group = batch_->groups[part.group];
  const std::size_t features = c_.features();
  WholeSoftmaxTask whole;
  w.row_times.clear();
  w.row_at.clear();
  for (std::uint32_t r = part.row_begin; r < part.row_end; ++r) {
    const std::uint32_t row = read ? batch_->read.rows[r] : r;
    w.row_at.push_back(static_cast<std::int32_t>(row - group.row_begin));
    if (c_.biased()) w.row_times.push_back(batch_->features[row * features + 1]);
  }
  if (c_.biased()) whole.now = batch_->features[(group.row_end - 1) * features + 1];
  whole.pairs = std::move(task);
  whole.positions = c_.positions;
  whole.row_at = w.row_at;
  whole.row_times = w.row_times;
  whole.buckets = &weights_->buckets;
  attend_whole(whole, w.softmax);
}

// Writes the input of the output projection: gated, normed heads; in the production layer gates, heads and
// gated heads side by side; with `concat` gates, normed heads and their product.
void CpuHstu::mix(const PackedHstuLayer& layer, Rows rows, HstuWorkspace& w) {
  const std::size_t width = c_.width(), stride = uvqk_width(), out_stride = c_.mixed();
  const float* const gates = uvqk_.data() + rows.begin * stride;
  const float* const heads = mixed_.data() + rows.begin * width;
  float* const out = w.normed.data();
  NormTask norm{.in = heads, .out = out + (out_stride - width), .gate = gates};
  norm.in_stride = norm.width = width;
  norm.gate_stride = stride;
  norm.out_stride = out_stride;
  norm.rows = rows.count;
  norm.epsilon = static_cast<float>(c_.epsilon);
  if (c_.norms_output()) norm.weight = layer.output_norm.data(), norm.bias = layer.output_norm_bias.data();
  if (c_.concat) norm.out = out + width, norm.gate = nullptr;
  kernels_.gates->norm(norm);
  for (std::size_t r = 0; out_stride > width && r < rows.count; ++r) {
    float* const row = out + r * out_stride;
    std::copy_n(gates + r * stride, width, row);
    if (c_.production()) std::copy_n(heads + r * width, width, row + width);
    for (std::size_t i = 0; c_.concat && i < width; ++i) row[2 * width + i] = row[i] * row[width + i];
  }
}

// Adds the output projection to the state, or puts it in its place.
void CpuHstu::add_output(const PackedHstuLayer& layer, Rows rows, HstuWorkspace& w) {
  {
    PartTimer timer(timed(w, &PassTimes::elementwise));
    mix(layer, rows, w);
  }
  PartTimer timer(timed(w, &PassTimes::linear));
  float* const state = state_.data() + rows.begin * c_.hidden;
  if (c_.residual)
    layer.output.add(w.normed.data(), state, rows.count);
  else
    layer.output.run(w.normed.data(), state, rows.count);
}

std::unique_ptr<Executor> make_cpu_hstu(HstuModel model, const DecoderOptions& options,
                                        const HstuKernels& kernels, Teams teams) {
  TROUPE_CHECK(options.page_tokens > 0, "hstu: expected page_tokens above 0");
  TROUPE_CHECK(!teams.empty(), "hstu: an executor needs at least one team");
  TROUPE_CHECK(options.weights != WeightFormat::int8, "hstu: expected float32 or bf16 weights");
  return std::make_unique<CpuHstu>(
      std::make_shared<const PackedHstu>(pack_hstu(std::move(model), {options.weights, *kernels.product})),
      std::make_shared<const Teams>(std::move(teams)), std::make_shared<std::mutex>(), 0, options, kernels);
}

std::unique_ptr<Executor> make_cpu_hstu(HstuModel model, const DecoderOptions& options) {
  return make_cpu_hstu(std::move(model), options, {&gates(), &silu_attend, &readout_rows, &product_version()},
                       make_teams(options.cores, options.executors, read_memory_nodes()));
}

}  // namespace troupe::kernels
