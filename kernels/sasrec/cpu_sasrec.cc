// SASRec on the CPU: one forward pass runs all computed tokens of all requests through the layers as
// rows of one matrix.
#include "kernels/sasrec/cpu_sasrec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

ItemScores item_scores(const SasrecConfig& c) {
  return {.columns = c.hidden,
          .unit_states = c.output_norm == SasrecOutputNorm::l2,
          .state_epsilon = c.output_epsilon,
          .unit_items = c.item_l2,
          .item_epsilon = c.l2_epsilon,
          .temperature = c.temperature};
}

ItemModel item_model(const SasrecConfig& c, ItemRows items, const DecoderOptions& options) {
  ItemModel model;
  model.layout = kv_layout(c, options.page_tokens, options.kv);
  model.pages = page_layout(model.layout);
  model.widths = {c.hidden, c.hidden, c.hidden};
  model.chunk_width = std::max(2 * c.hidden, c.intermediate);
  model.key_value_width = std::size_t{2} * c.hidden;
  model.row_operations = 2.0 * c.hidden * (4.0 * c.hidden + 2.0 * c.intermediate);
  model.memory = pass_memory(c, options);
  model.limits = plan_limits(c, items);
  model.scores = item_scores(c);
  return model;
}

// Takes rows [begin, end) of a matrix and its bias as a layer of its own.
Linear part_of(const Matrix& weight, const std::vector<float>& bias, std::uint32_t begin, std::uint32_t end,
               const Linear::Form& form, WeightMemory& memory) {
  const auto from = [&](const std::vector<float>& values, std::size_t width) {
    return std::vector<float>(values.begin() + static_cast<std::ptrdiff_t>(begin * width),
                              values.begin() + static_cast<std::ptrdiff_t>(end * width));
  };
  return {Matrix{end - begin, weight.columns, from(weight.values, weight.columns)}, from(bias, 1), form,
          memory};
}

}  // namespace

PlanLimits plan_limits(const SasrecConfig& config, ItemRows items) {
  PlanLimits limits{static_cast<std::int32_t>(config.vocabulary),
                    static_cast<std::int32_t>(config.history_max + 1)};
  limits.state = config.hidden;
  limits.moves = false;
  if (items == ItemRows::in_memory) allow_item_search(limits);
  return limits;
}

std::string plan_fault(const SasrecConfig& config, const Plan& plan) {
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    const Segment& segment = plan.segments[s];
    const std::int64_t end = segment.start + static_cast<std::int64_t>(segment.tokens.size());
    if (end > config.history_max)
      return "segments[" + std::to_string(s) + "] ends at position " + std::to_string(end) +
             "; expected at most " + std::to_string(config.history_max) + ", the events of a history";
  }
  return "";
}

KvLayout kv_layout(const SasrecConfig& config, std::uint32_t page_tokens, KvFormat format) {
  return {config.layers, config.heads, config.head_dim(), page_tokens, format};
}

RowMemory pass_memory(const SasrecConfig& config, const DecoderOptions& options) {
  const std::size_t packed = std::size_t{2} * config.head_dim() * std::min(options.cores, config.heads);
  const KvLayout layout = kv_layout(config, options.page_tokens, options.kv);
  const std::size_t row_bytes =
      (std::size_t{5} * config.hidden + config.intermediate + packed) * sizeof(float) +
      24 * sizeof(std::uint32_t) + 2 * layout.kv_heads * layout.vector_bytes();
  return divide_memory(row_bytes, config.history_max, options);
}

Plan sasrec_plan(const std::vector<Token>& history, std::vector<Token> items) {
  TROUPE_CHECK(!history.empty(), "sasrec: expected at least one event");
  Plan plan;
  const auto add = [&](std::size_t begin, std::size_t end) {
    Segment& segment = plan.segments.emplace_back();
    segment.tokens = std::vector<Token>(history.begin() + static_cast<std::ptrdiff_t>(begin),
                                        history.begin() + static_cast<std::ptrdiff_t>(end));
    segment.start = static_cast<std::int32_t>(begin);
    segment.sees = VisibleSegments::all_before(static_cast<std::uint32_t>(plan.segments.size() - 1));
  };
  if (history.size() > 1) add(0, history.size() - 1);
  add(history.size() - 1, history.size());
  const auto last = static_cast<std::uint32_t>(plan.segments.size() - 1);
  plan.readouts.push_back({last, 0, std::move(items)});
  plan.readouts.push_back({last, 0, {}, Readout::What::state});
  return plan;
}

PackedSasrec pack_sasrec(SasrecModel model, const Linear::Form& form) {
  const SasrecConfig& c = model.config;
  SasrecWeights& weights = model.weights;
  TROUPE_CHECK(weights.layers.size() == c.layers,
               "sasrec: expected as many layers of weights as the configuration has");
  const std::shared_ptr<EmbeddingTable>& table = model.items;
  TROUPE_CHECK(table || (weights.items.rows == c.vocabulary && weights.items.columns == c.hidden),
               "sasrec: expected one row of features per item");
  TROUPE_CHECK(!table || (table->rows() == c.vocabulary && table->columns() == c.hidden),
               "sasrec: expected a table with one row of features per item");
  PackedSasrec packed{c,
                      pack_items(std::move(weights.items), std::move(model.items), item_scores(c)),
                      std::move(weights.positions),
                      {}};
  WeightMemory memory;
  for (SasrecLayer& layer : weights.layers) {
    packed.layers.push_back({part_of(layer.qkv, layer.qkv_bias, 0, c.hidden, form, memory),
                             part_of(layer.qkv, layer.qkv_bias, c.hidden, 3 * c.hidden, form, memory),
                             Linear(std::move(layer.output), std::move(layer.output_bias), form, memory),
                             Linear(std::move(layer.fc1), std::move(layer.fc1_bias), form, memory),
                             Linear(std::move(layer.fc2), std::move(layer.fc2_bias), form, memory)});
    layer = {};
  }
  return packed;
}

CpuSasrec::CpuSasrec(std::shared_ptr<const PackedSasrec> weights, SharedTeams shared, std::uint32_t executor,
                     const DecoderOptions& options, const SasrecKernels& kernels)
    : ItemExecutor({weights, &weights->items}, item_model(weights->config, weights->items.where(), options),
                   std::move(shared), executor, options,
                   {kernels.gates, kernels.items.readout, with_product(kernels.items, kernels.product)}),
      weights_(std::move(weights)),
      c_(weights_->config),
      kernels_(kernels) {}

std::string CpuSasrec::plan_rows(std::span<const Request> requests) {
  for (const Request& request : requests) {
    const std::string fault = plan_fault(c_, *request.plan);
    TROUPE_CHECK(fault.empty(), fault);
  }
  batch_ = &planner_.plan(requests);
  return "";
}

void CpuSasrec::run_layers(Team::Pass& pass) {
  for (std::uint32_t layer = 0; layer < c_.layers; ++layer) {
    run_rows(pass, layer);
    run_attention(pass, layer, [&](const AttentionPart& part, std::uint32_t worker) {
      attend_part(part, layer, workspaces_[worker]);
    });
  }
  for_rows(pass, [&](Rows rows, ItemWorkspace& w) { finish_layer(weights_->layers.back(), rows, w); });
}

// Computes a layer's keys, values and queries from the mixed heads of the layer before (or the
// embedding). The last layer's queries wait until only the read rows are left.
void CpuSasrec::run_rows(Team::Pass& pass, std::uint32_t layer) {
  for_rows(pass, [&](Rows rows, ItemWorkspace& w) {
    if (layer == 0)
      embed(rows, w);
    else
      finish_layer(weights_->layers[layer - 1], rows, w);
    make_keys_values(weights_->layers[layer], rows, w);
    if (!is_last(layer)) make_queries(weights_->layers[layer], rows, w);
  });
  if (!is_last(layer)) return;
  keep_read_rows(0);
  for_rows(pass, [&](Rows rows, ItemWorkspace& w) { make_queries(weights_->layers[layer], rows, w); });
}

void CpuSasrec::embed(Rows rows, ItemWorkspace& w) {
  PartTimer timer(timed(w, &PassTimes::embedding));
  const float scale = std::sqrt(static_cast<float>(c_.hidden));
  for (std::size_t row = rows.begin; row < rows.begin + rows.count; ++row) {
    const float* const position =
        &weights_->positions.values[std::size_t{batch_->positions[row]} * c_.hidden];
    float* const out = state(row);
    const float* const item =
        weights_->items.table
            ? out
            : &weights_->items.embedding.values[static_cast<std::size_t>(batch_->tokens[row]) * c_.hidden];
    for (std::size_t i = 0; i < c_.hidden; ++i) out[i] = scale * item[i] + position[i];
  }
}

// Keys and values come from the state itself, not from its norm.
void CpuSasrec::make_keys_values(const PackedSasrecLayer& layer, Rows rows, ItemWorkspace& w) {
  {
    PartTimer timer(timed(w, &PassTimes::linear));
    layer.keys_values.run(state(rows.begin), w.chunk.data(), rows.count);
  }
  PartTimer timer(timed(w, &PassTimes::keys_values));
  kv_.store(static_cast<std::uint32_t>(rows.begin), static_cast<std::uint32_t>(rows.count), w.chunk.data(),
            w.chunk.data() + c_.hidden, std::size_t{2} * c_.hidden);
}

// Norms the state, which is the residual of attention, and computes queries from it.
void CpuSasrec::make_queries(const PackedSasrecLayer& layer, Rows rows, ItemWorkspace& w) {
  norm_rows(rows, w);
  PartTimer timer(timed(w, &PassTimes::linear));
  layer.query.run(state(rows.begin), projections_.data() + rows.begin * c_.hidden, rows.count);
}

void CpuSasrec::norm_rows(Rows rows, ItemWorkspace& w) {
  PartTimer timer(timed(w, &PassTimes::elementwise));
  NormTask norm{.in = state(rows.begin), .out = state(rows.begin)};
  norm.in_stride = norm.out_stride = norm.width = c_.hidden;
  norm.rows = rows.count;
  norm.epsilon = static_cast<float>(c_.epsilon);
  kernels_.gates->norm(norm);
}

void CpuSasrec::attend_part(const AttentionPart& part, std::uint32_t layer, ItemWorkspace& w) {
  AttendTask task;
  set_part(task, part, layer, w);
  task.heads = 1;
  task.scale = 1 / std::sqrt(static_cast<float>(c_.head_dim()));
  task.tail_begin = std::span(is_last(layer) ? batch_->read.begin : batch_->visible_begin)
                        .subspan(part.row_begin, task.rows);
  kernels_.attend(task, w.attend);
}

// Adds the mixed heads to the residual, norms it, and adds the feed-forward part.
void CpuSasrec::finish_layer(const PackedSasrecLayer& layer, Rows rows, ItemWorkspace& w) {
  {
    PartTimer timer(timed(w, &PassTimes::linear));
    layer.output.add(mixed_.data() + rows.begin * c_.hidden, state(rows.begin), rows.count);
  }
  norm_rows(rows, w);
  float* const inner = w.chunk.data();
  {
    PartTimer timer(timed(w, &PassTimes::linear));
    layer.fc1.run(state(rows.begin), inner, rows.count);
  }
  {
    PartTimer timer(timed(w, &PassTimes::elementwise));
    const std::size_t width = c_.intermediate;
    if (c_.activation == SasrecActivation::gelu)
      kernels_.gates->gelu(inner, width, rows.count, width);
    else  // NaN stays NaN, so that an overflow cannot pass for an answer
      for (std::size_t i = 0; i < rows.count * width; ++i) inner[i] = inner[i] < 0 ? 0 : inner[i];
  }
  PartTimer timer(timed(w, &PassTimes::linear));
  layer.fc2.add(inner, state(rows.begin), rows.count);
}

std::unique_ptr<Executor> make_cpu_sasrec(SasrecModel model, const DecoderOptions& options,
                                          const SasrecKernels& kernels, Teams teams) {
  TROUPE_CHECK(options.page_tokens > 0, "sasrec: expected page_tokens above 0");
  TROUPE_CHECK(!teams.empty(), "sasrec: an executor needs at least one team");
  TROUPE_CHECK(options.weights != WeightFormat::int8, "sasrec: expected float32 or bf16 weights");
  return std::make_unique<CpuSasrec>(std::make_shared<const PackedSasrec>(
                                         pack_sasrec(std::move(model), {options.weights, *kernels.product})),
                                     SharedTeams{std::make_shared<const Teams>(std::move(teams))}, 0, options,
                                     kernels);
}

std::unique_ptr<Executor> make_cpu_sasrec(SasrecModel model, const DecoderOptions& options) {
  return make_cpu_sasrec(std::move(model), options, {&gates(), &attend, &product_version(), {}},
                         make_teams(options.cores, options.executors, read_memory_nodes()));
}

}  // namespace troupe::kernels
