// HSTU on the CPU: one forward pass runs all computed tokens of all requests through the layers as
// rows of one matrix.
#include "kernels/hstu/cpu_hstu.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/cpu/engine/decoder_workspace.h"
#include "kernels/executor/passes.h"

namespace troupe::kernels {
namespace {

// Rows per chunk, as for the decoders: enough rows per load of the weights, in whole tiles of the
// product.
std::size_t hstu_chunk_rows(std::size_t rows, std::uint32_t workers) {
  constexpr std::size_t most = 192, tile = 12;
  const std::size_t rounds = std::max<std::size_t>(1, (rows + workers * most - 1) / (workers * most));
  const std::size_t chunks = rounds * workers;
  return std::max(tile, ((rows + chunks - 1) / chunks + tile - 1) / tile * tile);
}

constexpr double hstu_copies_cost = 20;  // operations in the time of copying one value

float length_of(const float* values, std::size_t count) {
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) squares += double{values[i]} * values[i];
  return static_cast<float>(std::sqrt(squares));
}

// Scale of next-item logits: 1 / (length of the item's row × temperature).
float scale_of(const HstuConfig& c, const float* item) {
  return 1 / (std::max(length_of(item, c.hidden), float(c.l2_epsilon)) * float(c.temperature));
}

}  // namespace

PlanLimits plan_limits(const HstuConfig& config) {
  PlanLimits limits{static_cast<std::int32_t>(config.vocabulary),
                    static_cast<std::int32_t>(config.positions)};
  limits.features = config.features();
  limits.heads = config.tasks;
  limits.state = config.hidden;
  limits.moves = false;
  return limits;
}

KvLayout kv_layout(const HstuConfig& config, std::uint32_t page_tokens, KvFormat format) {
  return {config.layers, config.heads, config.head_dim, page_tokens, format};
}

HstuPassMemory pass_memory(const HstuConfig& config, const DecoderOptions& options) {
  const std::size_t mixed = (config.production ? 3 : 1) * std::size_t{config.width()};
  const std::size_t widths = config.hidden + 5 * std::size_t{config.width()} + mixed;
  const std::size_t packed = std::size_t{2} * config.head_dim * std::min(options.cores, config.heads);
  const KvLayout layout = kv_layout(config, options.page_tokens, options.kv);
  const std::size_t planned = 24 * sizeof(std::uint32_t) + 2 * (config.time_buckets + 1) * sizeof(BucketStep);
  HstuPassMemory memory;
  memory.row_bytes =
      (widths + packed) * sizeof(float) + planned + 2 * layout.kv_heads * layout.vector_bytes();
  memory.steps_max = std::size_t{2} * (config.time_buckets + 1);
  memory.tokens_max = memory.tokens_kept = SIZE_MAX;
  if (options.memory_bytes == 0) return memory;
  const std::size_t share = options.memory_bytes / std::max(1u, options.executors);
  const std::size_t batch = std::max(1u, options.batch_tokens), longest = config.positions;
  memory.tokens_kept = std::max(share / memory.row_bytes, batch);
  memory.tokens_max = std::max({options.memory_bytes / memory.row_bytes, batch, longest});
  return memory;
}

PackedHstu pack_hstu(HstuModel model, const Linear::Form& form) {
  const HstuConfig& c = model.config;
  HstuWeights& weights = model.weights;
  TROUPE_CHECK(weights.layers.size() == c.layers,
               "hstu: expected as many layers of weights as the configuration has");
  PackedHstu packed{c,
                    TimeBuckets(c.bucket_divisor, c.time_buckets),
                    std::move(weights.items),
                    std::move(weights.positions),
                    std::move(model.items),
                    {},
                    {},
                    {},
                    {}};
  TROUPE_CHECK(packed.items.rows == c.vocabulary && packed.items.columns == c.hidden,
               "hstu: expected one row of features per item");
  TROUPE_CHECK(!packed.table || (packed.table->rows() == c.vocabulary && packed.table->columns() == c.hidden),
               "hstu: expected a table with one row of features per item");
  WeightMemory memory;
  for (HstuLayer& layer : weights.layers)
    packed.layers.push_back({Linear(std::move(layer.uvqk), std::move(layer.uvqk_bias), form, memory),
                             Linear(std::move(layer.output), std::move(layer.output_bias), form, memory),
                             std::move(layer.position_weight), std::move(layer.time_weight),
                             std::move(layer.input_norm), std::move(layer.input_norm_bias),
                             std::move(layer.output_norm), std::move(layer.output_norm_bias)});
  if (c.tasks > 0) {
    packed.fc1.emplace(std::move(weights.fc1), std::move(weights.fc1_bias), form, memory);
    packed.fc2.emplace(std::move(weights.fc2), std::move(weights.fc2_bias), form, memory);
  }
  for (std::size_t item = 0; !packed.table && item < c.vocabulary; ++item)
    packed.item_scales.push_back(scale_of(c, &packed.items.values[item * c.hidden]));
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
      pages_(page_layout(layout_)),
      kernels_(kernels),
      planner_(plan_limits(c_), layout_, c_.context_tokens),
      kv_(layout_),
      no_turns_({}),
      bias_(c_, weights_->buckets),
      workspaces_(team_.cores()) {}

void CpuHstu::run(std::span<const Request> requests, std::vector<Reply>& replies) {
  start_replies(requests, replies);
  run_in_passes(requests, replies, [this](auto some, auto answers) { return run_pass(some, answers); });
}

std::string CpuHstu::run_pass(std::span<const Request> requests, std::span<Reply> replies) {
  const std::size_t tokens =
      std::transform_reduce(requests.begin(), requests.end(), std::size_t{0}, std::plus(), computed_tokens);
  if (tokens > memory_.tokens_max)
    return std::to_string(tokens) + " computed tokens; expected at most " +
           std::to_string(memory_.tokens_max) + " in one pass";
  if (tokens <= memory_.tokens_kept) return compute(requests, replies);
  const std::lock_guard one_at_a_time(*large_);
  std::string beyond = compute(requests, replies);
  free_memory();
  return beyond;
}

// Frees a large pass's memory, so that the next large pass may be any executor's.
void CpuHstu::free_memory() {
  const std::size_t rows = memory_.tokens_kept;
  state_.shrink(rows * c_.hidden);
  uvqk_.shrink(rows * uvqk_width());
  mixed_.shrink(rows * c_.width());
  kv_.shrink(rows);
  bias_.free_memory();
  gathered_ = {};
  read_items_ = {};
  for (HstuWorkspace& w : workspaces_) w.attend = {};
  planner_ = BatchPlanner(plan_limits(c_), layout_, c_.context_tokens);
  batch_ = nullptr;
}

std::string CpuHstu::compute(std::span<const Request> requests, std::span<Reply> replies) {
  thread_local CpuSet beside;
  if (beside != team_.cpus()) bind_to_cpus(beside = team_.cpus());
  Team::Pass pass(team_);
  {
    PartTimer timer(timed(workspaces_[0], &PassTimes::planning));
    batch_ = &planner_.plan(requests);
    if (std::string beyond = bias_.note(*batch_, memory_.steps_max); !beyond.empty()) return beyond;
    start(pass.workers());
  }
  if (weights_->table) gather_items();
  for (std::uint32_t layer = 0; layer < c_.layers; ++layer) {
    run_rows(pass, layer);
    run_attention(pass, layer);
  }
  for_rows(pass, [&](HstuRows rows, HstuWorkspace& w) { add_output(weights_->layers.back(), rows, w); });
  read(requests, replies);
  if (times_ != nullptr) collect_times();
  return "";
}

// Allocates the pass's memory.
void CpuHstu::start(std::uint32_t workers) {
  rows_ = batch_->rows();
  chunk_rows_ = hstu_chunk_rows(rows_, workers);
  cut_attention(*batch_, nullptr, c_.heads, c_.heads, workers, all_rows_);
  cut_attention(*batch_, &batch_->read, c_.heads, c_.heads, workers, read_rows_);
  state_.reserve(rows_ * c_.hidden);
  uvqk_.reserve(rows_ * uvqk_width());
  mixed_.reserve(rows_ * c_.width());
  for (HstuWorkspace& workspace : workspaces_)  // a core that is busy now may join this pass later
    workspace.normed.reserve(chunk_rows_ * std::max<std::size_t>(c_.hidden, mixed_width()));
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
  const std::size_t chunks = (rows_ + chunk_rows_ - 1) / chunk_rows_;
  const double row_operations = 2.0 * c_.hidden * static_cast<double>(uvqk_width() + mixed_width());
  pass.run(chunks, static_cast<double>(rows_) * row_operations, [&](std::size_t chunk, std::uint32_t worker) {
    const std::size_t begin = chunk * chunk_rows_;
    work(HstuRows{begin, std::min(chunk_rows_, rows_ - begin)}, workspaces_[worker]);
  });
}

// Computes a layer's gates, values, queries and keys from the mixed heads of the layer before (or
// the embedding).
void CpuHstu::run_rows(Team::Pass& pass, std::uint32_t layer) {
  for_rows(pass, [&](HstuRows rows, HstuWorkspace& w) {
    if (layer == 0)
      embed(rows, w);
    else
      add_output(weights_->layers[layer - 1], rows, w);
    make_projections(weights_->layers[layer], rows, w);
  });
}

void CpuHstu::embed(HstuRows rows, HstuWorkspace& w) {
  PartTimer timer(timed(w, &PassTimes::embedding));
  const float scale = std::sqrt(static_cast<float>(c_.hidden));
  for (std::size_t row = rows.begin; row < rows.begin + rows.count; ++row) {
    const float* const position =
        &weights_->positions.values[std::size_t{batch_->positions[row]} * c_.hidden];
    float* const out = state_.data() + row * c_.hidden;
    const float* const item =
        weights_->table ? out
                        : &weights_->items.values[static_cast<std::size_t>(batch_->tokens[row]) * c_.hidden];
    for (std::size_t i = 0; i < c_.hidden; ++i) out[i] = scale * item[i] + position[i];
  }
}

void CpuHstu::make_projections(const PackedHstuLayer& layer, HstuRows rows, HstuWorkspace& w) {
  const std::size_t width = c_.width(), stride = uvqk_width();
  float* const uvqk = uvqk_.data() + rows.begin * stride;
  NormTask norm{.in = state(rows.begin), .out = w.normed.data()};
  norm.in_stride = norm.out_stride = norm.width = c_.hidden;
  norm.rows = rows.count;
  norm.epsilon = static_cast<float>(c_.epsilon);
  if (c_.production) norm.weight = layer.input_norm.data(), norm.bias = layer.input_norm_bias.data();
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
    kernels_.gates->silu(uvqk, stride, rows.count, c_.production ? width : stride);
  }
  PartTimer timer(timed(w, &PassTimes::keys_values));
  kv_.store(static_cast<std::uint32_t>(rows.begin), static_cast<std::uint32_t>(rows.count), uvqk + 3 * width,
            uvqk + width, stride);
}

// Keys and values that are kept go to their pages while attention runs: both only read this
// layer's.
void CpuHstu::run_attention(Team::Pass& pass, std::uint32_t layer) {
  if (is_last(layer)) keep_read_rows();
  const AttentionParts& attention = is_last(layer) ? read_rows_ : all_rows_;
  const std::size_t parts = attention.parts.size();
  double operations = 4 * attention.pairs * c_.width();
  for (const KeptSegment& segment : batch_->kept)
    operations += hstu_copies_cost * segment.tokens * 2 * c_.width();
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
    std::copy_n(uvqk_.data() + from * stride, 3 * c_.width(), uvqk_.data() + to * stride);
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
  task.scale = static_cast<float>(c_.scale);
  task.factor = static_cast<float>(1 / c_.normaliser);
  task.context_begin = interval(of_rows.context_begin);
  task.tail_begin = interval(of_rows.tail_begin);
  task.tail_end = interval(is_last(layer) ? batch_->read.end : batch_->visible_end);
  task.queries = uvqk_.data() + begin * task.query_stride + 2 * width + std::size_t{part.head} * c_.head_dim;
  task.out = mixed_.data() + begin * width + std::size_t{part.head} * c_.head_dim;
  kv_.resolve(std::span(batch_->spans).subspan(group.span_begin, group.span_end - group.span_begin),
              no_turns_, layer, part.head, w.context);
  task.context = w.context;
  w.tail.assign(1, kv_.rows(part.head, group.row_begin, *std::ranges::max_element(task.tail_end)));
  task.tail = w.tail;
  if (!c_.production) {
    const PackedHstuLayer& weights = weights_->layers[layer];
    task.bias.by_distance = weights.position_weight.data() + c_.positions - 1;
    task.bias.by_bucket = weights.time_weight;
    task.bias.row_positions = interval(of_rows.positions);
    task.bias.key_positions = keys.key_positions;
    task.bias.steps = bias_.steps();
    task.bias.step_begin = interval(of_rows.step_begin);
    task.bias.step_end = interval(of_rows.step_end);
  }
  kernels_.attend(task, w.attend);
}

// Adds the output projection of the gated, normed heads to the state; in the production layer, of
// gates, heads and gated heads side by side.
void CpuHstu::add_output(const PackedHstuLayer& layer, HstuRows rows, HstuWorkspace& w) {
  const std::size_t width = c_.width(), stride = uvqk_width(), out_stride = mixed_width();
  const float* const gates = uvqk_.data() + rows.begin * stride;
  const float* const heads = mixed_.data() + rows.begin * width;
  {
    PartTimer timer(timed(w, &PassTimes::elementwise));
    NormTask norm{.in = heads, .out = w.normed.data() + (out_stride - width), .gate = gates};
    norm.in_stride = norm.width = width;
    norm.gate_stride = stride;
    norm.out_stride = out_stride;
    norm.rows = rows.count;
    norm.epsilon = static_cast<float>(c_.epsilon);
    if (c_.production) norm.weight = layer.output_norm.data(), norm.bias = layer.output_norm_bias.data();
    kernels_.gates->norm(norm);
    for (std::size_t r = 0; c_.production && r < rows.count; ++r) {
      std::copy_n(gates + r * stride, width, w.normed.data() + r * out_stride);
      std::copy_n(heads + r * width, width, w.normed.data() + r * out_stride + width);
    }
  }
  PartTimer timer(timed(w, &PassTimes::linear));
  layer.output.add(w.normed.data(), state_.data() + rows.begin * c_.hidden, rows.count);
}

void CpuHstu::read(std::span<const Request> requests, std::span<Reply> replies) {
  PartTimer timer(timed(workspaces_[0], &PassTimes::readout));
  for (std::size_t i = 0; i < requests.size(); ++i)
    replies[i].readouts.resize(requests[i].plan->readouts.size());
  const std::span<const BatchReadout> all = batch_->readouts;
  for (std::size_t first = 0; first < all.size();) {
    std::vector<float>& out = replies[all[first].request].readouts[all[first].index];
    if (all[first].what == Readout::What::state) {
      out.assign(state(all[first].read_row), state(all[first].read_row) + c_.hidden);
      ++first;
    } else if (all[first].what == Readout::What::head) {
      read_head(all[first++], out);
    } else {
      const std::size_t end = end_of_alike(first);
      read_next_items(first, end, replies);
      first = end;
    }
  }
}

// Returns the end of the readouts from `first` on that ask for logits of the same items; a readout
// of another kind is a run of one.
std::size_t CpuHstu::end_of_alike(std::size_t first) const {
  const std::span<const BatchReadout> all = batch_->readouts;
  const auto reads_items = [](const BatchReadout& readout) {
    return readout.what != Readout::What::state && readout.what != Readout::What::head;
  };
  std::size_t end = first + 1;
  if (!reads_items(all[first])) return end;
  while (end < all.size() && reads_items(all[end]) &&
         std::ranges::equal(all[end].vocabulary_rows, all[first].vocabulary_rows))
    ++end;
  return end;
}

void CpuHstu::read_head(const BatchReadout& readout, std::vector<float>& out) {
  thread_local std::vector<float> normed, inner, logits;
  normed.resize(c_.hidden);
  inner.resize(c_.head_hidden);
  logits.resize(c_.tasks);
  NormTask norm{.in = state(readout.read_row), .out = normed.data()};
  norm.rows = 1;
  norm.width = c_.hidden;
  norm.epsilon = static_cast<float>(c_.epsilon);
  kernels_.gates->norm(norm);
  weights_->fc1->run(normed.data(), inner.data(), 1);
  kernels_.gates->silu(inner.data(), c_.head_hidden, 1, c_.head_hidden);
  weights_->fc2->run(inner.data(), logits.data(), 1);
  out.assign(1, logits[readout.head]);
}

// Computes logits of the same items for the readouts [first, end).
void CpuHstu::read_next_items(std::size_t first, std::size_t end, std::span<Reply> replies) {
  const std::span<const BatchReadout> all = batch_->readouts;
  std::span<const Token> rows = all[first].vocabulary_rows;
  const Matrix& items = weights_->table ? read_items_ : weights_->items;
  if (weights_->table) {
    const float* const gathered = state_.data() + gathered_at_[first] * c_.hidden;
    read_items_ = {
        static_cast<std::uint32_t>(rows.size()), c_.hidden, {gathered, gathered + rows.size() * c_.hidden}};
    read_item_rows_.resize(rows.size());
    std::iota(read_item_rows_.begin(), read_item_rows_.end(), 0);
    rows = read_item_rows_;
  }
  readout_states_.clear();
  readout_out_.clear();
  for (std::size_t i = first; i < end; ++i) {
    std::vector<float>& out = replies[all[i].request].readouts[all[i].index];
    out.resize(rows.size());
    readout_states_.push_back(state(all[i].read_row));
    readout_out_.push_back(out.data());
  }
  kernels_.readout(readout_states_, items, rows, readout_out_);
  for (std::size_t s = 0; s < readout_out_.size(); ++s) {
    const float length =
        std::max(length_of(readout_states_[s], c_.hidden), static_cast<float>(c_.l2_epsilon));
    for (std::size_t i = 0; i < rows.size(); ++i) readout_out_[s][i] *= item_scale(items, rows[i]) / length;
  }
}

float CpuHstu::item_scale(const Matrix& items, Token row) const {
  const auto at = static_cast<std::size_t>(row);
  return weights_->table ? scale_of(c_, &items.values[at * c_.hidden]) : weights_->item_scales[at];
}

void CpuHstu::collect_times() {
  for (HstuWorkspace& w : workspaces_) {
    for (const auto part :
         {&PassTimes::planning, &PassTimes::embedding, &PassTimes::linear, &PassTimes::attention,
          &PassTimes::elementwise, &PassTimes::keys_values, &PassTimes::readout})
      times_->*part += w.times.*part;
    w.times = {};
  }
}

std::unique_ptr<Executor> make_cpu_hstu(HstuModel model, const DecoderOptions& options,
                                        const HstuKernels& kernels, Teams teams) {
  TROUPE_CHECK(options.page_tokens > 0, "hstu: expected page_tokens above 0");
  TROUPE_CHECK(!teams.empty(), "hstu: an executor needs at least one team");
  TROUPE_CHECK(options.weights == WeightFormat::f32, "hstu: expected float32 weights");
  return std::make_unique<CpuHstu>(
      std::make_shared<const PackedHstu>(pack_hstu(std::move(model), {options.weights, *kernels.product})),
      std::make_shared<const Teams>(std::move(teams)), std::make_shared<std::mutex>(), 0, options, kernels);
}

std::unique_ptr<Executor> make_cpu_hstu(HstuModel model, const DecoderOptions& options) {
  return make_cpu_hstu(std::move(model), options, {&gates(), &silu_attend, &readout_rows, &product_version()},
                       make_teams(options.cores, options.executors, read_memory_nodes()));
}

}  // namespace troupe::kernels
