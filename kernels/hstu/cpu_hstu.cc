// HSTU on the CPU: one forward pass runs all computed tokens of all requests through the layers as
// rows of one matrix.
#include "kernels/hstu/cpu_hstu.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

ItemScores item_scores(const HstuConfig& c) {
  return {.columns = c.item_columns(),
          .unit_states = c.output_norm == HstuOutputNorm::l2,
          .state_epsilon = c.state_epsilon(),
          .unit_items = c.item_l2,
          .item_epsilon = c.l2_epsilon,
          .temperature = c.temperature};
}

ItemModel item_model(const HstuConfig& c, const DecoderOptions& options) {
  ItemModel model;
  model.layout = kv_layout(c, options.page_tokens, options.kv);
  model.pages = page_layout(c, options);
  model.widths = {c.hidden, c.projected(), c.width()};
  model.first_query = std::size_t{2} * c.width();
  model.chunk_width = std::max(c.hidden, c.mixed());
  model.key_value_width = std::size_t{c.width()} + c.query_width();
  model.row_operations = 2.0 * c.hidden * static_cast<double>(c.projected() + c.mixed());
  model.memory = pass_memory(c, options);
  model.token_rows = c.event_tokens();
  model.limits = token_limits(c);
  model.sees_ahead = c.softmax ? c.positions : c.context_tokens;
  // A window begins at a key of each row's own.
  model.joins_groups = !c.softmax && c.window == 0;
  model.scores = item_scores(c);
  return model;
}

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
  TROUPE_CHECK(weights.items.rows == c.vocabulary && weights.items.columns == c.item_columns(),
               "hstu: expected one row of features per item");
  TROUPE_CHECK(!model.items || (model.items->rows() == c.vocabulary && model.items->columns() == c.hidden),
               "hstu: expected a table with one row of features per item");
  TROUPE_CHECK(!model.items || c.actions + c.contexts() == 0,
               "hstu: a table of items apart holds no actions and no contextual features");
  PackedHstu packed;
  packed.config = c;
  packed.buckets = TimeBuckets(c.bucket_divisor, c.time_buckets);
  packed.items = pack_items(std::move(weights.items), std::move(model.items), item_scores(c));
  packed.positions = std::move(weights.positions);
  if (c.nvidia())
    packed.further = stacked(std::move(weights.contexts), std::move(weights.actions));
  else
    packed.actions = std::move(weights.actions);
  WeightMemory memory;
  for (HstuLayer& layer : weights.layers)
    packed.layers.push_back({Linear(std::move(layer.uvqk), std::move(layer.uvqk_bias), form, memory),
                             Linear(std::move(layer.output), std::move(layer.output_bias), form, memory),
                             std::move(layer.position_weight), std::move(layer.time_weight),
                             std::move(layer.input_norm), std::move(layer.input_norm_bias),
                             std::move(layer.output_norm), std::move(layer.output_norm_bias)});
  packed.head = pack_head(c, weights, form, memory);
  return packed;
}

CpuHstu::CpuHstu(std::shared_ptr<const PackedHstu> weights, SharedTeams shared, std::uint32_t executor,
                 const DecoderOptions& options, const HstuKernels& kernels)
    : ItemExecutor({weights, &weights->items}, item_model(weights->config, options), std::move(shared),
                   executor, options, {kernels.gates, kernels.readout, with_product({}, kernels.product)}),
      weights_(std::move(weights)),
      c_(weights_->config),
      steps_max_(pass_memory(c_, options).steps_max),
      kernels_(kernels),
      event_tokens_(c_, model_.layout),
      bias_(c_, weights_->buckets),
      softmax_(workspaces_.size()) {}

void CpuHstu::free_memory() {
  bias_.free_memory();  // first: ItemExecutor allocates a planner, which can fail
  ItemExecutor::free_memory();
}

std::string CpuHstu::plan_rows(std::span<const Request> requests) {
  head_row_ = UINT32_MAX;
  share_capacity(
      std::span(softmax_), [](SoftmaxScratch & scratch) -> auto& { return scratch.weights; },
      [](SoftmaxScratch & scratch) -> auto& { return scratch.row_times; },
      [](SoftmaxScratch & scratch) -> auto& { return scratch.row_at; });
  batch_ = &planner_.plan(c_.event_tokens() > 1 ? event_tokens_.of(requests) : requests);
  return bias_.note(*batch_, steps_max_);
}

void CpuHstu::run_layers(Team::Pass& pass) {
  for (std::uint32_t layer = 0; layer < c_.layers; ++layer) {
    run_rows(pass, layer);
    // The remaining rows need their gates and queries.
    if (is_last(layer)) keep_read_rows(std::size_t{2} * c_.width() + c_.query_width());
    run_attention(pass, layer,
                  [&](const AttentionPart& part, std::uint32_t worker) { attend_part(part, layer, worker); });
  }
  for_rows(pass, [&](Rows rows, ItemWorkspace& w) { add_output(weights_->layers.back(), rows, w); });
}

// Computes a layer's gates, values, queries and keys from the mixed heads of the layer before (or
// the embedding).
void CpuHstu::run_rows(Team::Pass& pass, std::uint32_t layer) {
  for_rows(pass, [&](Rows rows, ItemWorkspace& w) {
    if (layer == 0)
      embed(rows, w);
    else
      add_output(weights_->layers[layer - 1], rows, w);
    make_projections(weights_->layers[layer], rows, w);
  });
}

const float* CpuHstu::embedding(Token token) const {
  const auto row = static_cast<std::size_t>(token);
  return row < c_.vocabulary ? &weights_->items.embedding.values[row * c_.item_columns()]
                             : &weights_->further.values[(row - c_.vocabulary) * c_.hidden];
}

void CpuHstu::embed(Rows rows, ItemWorkspace& w) {
  PartTimer timer(timed(w, &PassTimes::embedding));
  const float scale = c_.scales_input ? std::sqrt(static_cast<float>(c_.hidden)) : 1;
  const std::size_t columns = c_.item_columns(), features = token_limits(c_).features;
  for (std::size_t row = rows.begin; row < rows.begin + rows.count; ++row) {
    float* const out = state(row);
    const float* const item = weights_->items.table ? out : embedding(batch_->tokens[row]);
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

void CpuHstu::make_projections(const PackedHstuLayer& layer, Rows rows, ItemWorkspace& w) {
  const std::size_t width = c_.width(), keys = 2 * width + c_.query_width(), stride = c_.projected();
  float* const uvqk = projections_.data() + rows.begin * stride;
  NormTask norm{.in = state(rows.begin), .out = w.chunk.data()};
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
    layer.uvqk.run(w.chunk.data(), uvqk, rows.count);
  }
  {
    PartTimer timer(timed(w, &PassTimes::elementwise));
    if (c_.activated() > 0) kernels_.gates->silu(uvqk, stride, rows.count, c_.activated());
  }
  PartTimer timer(timed(w, &PassTimes::keys_values));
  kv_.store(static_cast<std::uint32_t>(rows.begin), static_cast<std::uint32_t>(rows.count), uvqk + keys,
            uvqk + width, stride);
}

void CpuHstu::attend_part(const AttentionPart& part, std::uint32_t layer, std::uint32_t worker) {
  ItemWorkspace& w = workspaces_[worker];
  const HstuBias::Group& keys = bias_.groups()[part.group];
  const HstuBias::Rows& of_rows = is_last(layer) ? bias_.read_rows() : bias_.rows();
  SiluAttendTask task;
  set_part(task, part, layer, w);
  const auto interval = [&](const auto& all) {
    return all.empty() ? std::span(all) : std::span(all).subspan(part.row_begin, task.rows);
  };
  task.value_dim = c_.numbers_of_value();
  task.scale = static_cast<float>(c_.scale);
  task.factor = static_cast<float>(1 / c_.normaliser);
  task.context_begin = interval(of_rows.context_begin);
  task.tail_begin = interval(of_rows.tail_begin);
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
  attend_softmax(std::move(task), part, is_last(layer), softmax_[worker]);
}

// Adds what the softmax needs beside the pairs: rows' indices and times, and the request's time.
void CpuHstu::attend_softmax(SiluAttendTask task, const AttentionPart& part, bool read,
                             SoftmaxScratch& scratch) {
  const RowGroup& group = batch_->groups[part.group];
  const std::size_t features = c_.features();
  WholeSoftmaxTask whole;
  scratch.row_times.clear();
  scratch.row_at.clear();
  for (std::uint32_t r = part.row_begin; r < part.row_end; ++r) {
    const std::uint32_t row = read ? batch_->read.rows[r] : r;
    scratch.row_at.push_back(static_cast<std::int32_t>(row - group.row_begin));
    if (c_.biased()) scratch.row_times.push_back(batch_->features[row * features + 1]);
  }
  if (c_.biased()) whole.now = batch_->features[(group.row_end - 1) * features + 1];
  whole.pairs = std::move(task);
  whole.positions = c_.positions;
  whole.row_at = scratch.row_at;
  whole.row_times = scratch.row_times;
  whole.buckets = &weights_->buckets;
  attend_whole(whole, scratch.weights);
}

// Writes the input of the output projection: gated, normed heads; in the production layer gates, heads and
// gated heads side by side; with `concat` gates, normed heads and their product.
void CpuHstu::mix(const PackedHstuLayer& layer, Rows rows, ItemWorkspace& w) {
  const std::size_t width = c_.width(), stride = c_.projected(), out_stride = c_.mixed();
  const float* const gates = projections_.data() + rows.begin * stride;
  const float* const heads = mixed_.data() + rows.begin * width;
  float* const out = w.chunk.data();
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
void CpuHstu::add_output(const PackedHstuLayer& layer, Rows rows, ItemWorkspace& w) {
  {
    PartTimer timer(timed(w, &PassTimes::elementwise));
    mix(layer, rows, w);
  }
  PartTimer timer(timed(w, &PassTimes::linear));
  if (c_.residual)
    layer.output.add(w.chunk.data(), state(rows.begin), rows.count);
  else
    layer.output.run(w.chunk.data(), state(rows.begin), rows.count);
}

std::unique_ptr<Executor> make_cpu_hstu(HstuModel model, const DecoderOptions& options,
                                        const HstuKernels& kernels, Teams teams) {
  TROUPE_CHECK(options.page_tokens > 0, "hstu: expected page_tokens above 0");
  TROUPE_CHECK(!teams.empty(), "hstu: an executor needs at least one team");
  TROUPE_CHECK(options.weights != WeightFormat::int8, "hstu: expected float32 or bf16 weights");
  return std::make_unique<CpuHstu>(
      std::make_shared<const PackedHstu>(pack_hstu(std::move(model), {options.weights, *kernels.product})),
      SharedTeams{std::make_shared<const Teams>(std::move(teams))}, 0, options, kernels);
}

std::unique_ptr<Executor> make_cpu_hstu(HstuModel model, const DecoderOptions& options) {
  return make_cpu_hstu(std::move(model), options, {&gates(), &silu_attend, &readout_rows, &product_version()},
                       make_teams(options.cores, options.executors, read_memory_nodes()));
}

}  // namespace troupe::kernels
