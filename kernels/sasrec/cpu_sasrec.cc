// SASRec on the CPU: one forward pass runs all computed tokens of all requests through the layers as
// rows of one matrix.
#include "kernels/sasrec/cpu_sasrec.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/cpu/engine/decoder_workspace.h"
#include "kernels/executor/passes.h"

namespace troupe::kernels {
namespace {

constexpr std::size_t sasrec_chunk_rows_max = 192;

float sasrec_length(const float* values, std::size_t count) {
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) squares += double{values[i]} * values[i];
  return static_cast<float>(std::sqrt(squares));
}

float item_factor(const SasrecConfig& c, const float* item) {
  const float length =
      c.item_l2 ? std::max(sasrec_length(item, c.hidden), static_cast<float>(c.l2_epsilon)) : 1;
  return 1 / (length * static_cast<float>(c.temperature));
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
  PackedSasrec packed{c, std::move(weights.items), std::move(weights.positions), std::move(model.items), {},
                      {}};
  TROUPE_CHECK(packed.table || (packed.items.rows == c.vocabulary && packed.items.columns == c.hidden),
               "sasrec: expected one row of features per item");
  TROUPE_CHECK(!packed.table || (packed.table->rows() == c.vocabulary && packed.table->columns() == c.hidden),
               "sasrec: expected a table with one row of features per item");
  WeightMemory memory;
  for (SasrecLayer& layer : weights.layers) {
    packed.layers.push_back({part_of(layer.qkv, layer.qkv_bias, 0, c.hidden, form, memory),
                             part_of(layer.qkv, layer.qkv_bias, c.hidden, 3 * c.hidden, form, memory),
                             Linear(std::move(layer.output), std::move(layer.output_bias), form, memory),
                             Linear(std::move(layer.fc1), std::move(layer.fc1_bias), form, memory),
                             Linear(std::move(layer.fc2), std::move(layer.fc2_bias), form, memory)});
    layer = {};
  }
  for (std::size_t item = 0; !packed.table && item < c.vocabulary; ++item)
    packed.item_factors.push_back(item_factor(c, &packed.items.values[item * c.hidden]));
  return packed;
}

CpuSasrec::CpuSasrec(std::shared_ptr<const PackedSasrec> weights, std::shared_ptr<const Teams> teams,
                     std::shared_ptr<std::mutex> large, std::uint32_t executor, const DecoderOptions& options,
                     const SasrecKernels& kernels)
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
      planner_(plan_limits(c_, weights_->item_rows()), layout_),
      kv_(layout_),
      no_turns_({}),
      search_(with_product(kernels.items, kernels.product)),
      workspaces_(team_.cores()) {}

void CpuSasrec::run(std::span<const Request> requests, std::vector<Reply>& replies) {
  start_replies(requests, replies);
  run_in_passes(search_.begin(requests), replies,
                [this](auto some, auto answers) { return run_pass(some, answers); });
  if (search_.pending())
    search_.finish(
        replies,
        {weights_->items, weights_->item_factors, [this](std::vector<float>& state) { norm_output(state); },
         narrow_items(*weights_->narrow, weights_->items, weights_->item_factors, options_.weights,
                      kernels_.product->panel_width)},
        team_, timed(workspaces_[0], &PassTimes::search));
  if (times_ != nullptr) collect_times(std::span(workspaces_), *times_);
}

std::string CpuSasrec::run_pass(std::span<const Request> requests, std::span<Reply> replies) {
  const std::size_t tokens = computed_tokens(requests);
  if (std::string beyond = validate_tokens(tokens, memory_.tokens_max); !beyond.empty()) return beyond;
  if (tokens <= memory_.tokens_kept) return compute(requests, replies);
  return run_large_pass(
      *large_, [&] { return compute(requests, replies); }, [&] { free_memory(); });
}

// Frees a large pass's memory, so that the next large pass may be any executor's.
void CpuSasrec::free_memory() {
  const std::size_t rows = memory_.tokens_kept;
  for (FloatBuffer* buffer : {&state_, &query_, &mixed_}) buffer->shrink(rows * c_.hidden);
  kv_.shrink(rows);
  gathered_ = {};
  read_items_ = {};
  for (SasrecWorkspace& w : workspaces_) w.attend = {};
  planner_ = BatchPlanner(plan_limits(c_, weights_->item_rows()), layout_);
  batch_ = nullptr;
}

std::string CpuSasrec::compute(std::span<const Request> requests, std::span<Reply> replies) {
  team_.bind_caller();
  Team::Pass pass(team_);
  {
    PartTimer timer(timed(workspaces_[0], &PassTimes::planning));
    for (const Request& request : requests) {
      const std::string fault = plan_fault(c_, *request.plan);
      TROUPE_CHECK(fault.empty(), fault);
    }
    batch_ = &planner_.plan(requests);
    start(pass.workers());
  }
  if (weights_->table) gather_items();
  for (std::uint32_t layer = 0; layer < c_.layers; ++layer) {
    run_rows(pass, layer);
    run_attention(pass, layer);
  }
  for_rows(pass, [&](Rows rows, SasrecWorkspace& w) { finish_layer(weights_->layers.back(), rows, w); });
  read(requests, replies);
  return "";
}

// Allocates the pass's memory.
void CpuSasrec::start(std::uint32_t workers) {
  rows_ = batch_->rows();
  chunk_rows_ = chunk_rows(rows_, workers, sasrec_chunk_rows_max);
  cut_attention(*batch_, nullptr, c_.heads, c_.heads, workers, all_rows_);
  cut_attention(*batch_, &batch_->read, c_.heads, c_.heads, workers, read_rows_);
  for (FloatBuffer* buffer : {&state_, &query_, &mixed_}) buffer->reserve(rows_ * c_.hidden);
  for (SasrecWorkspace& workspace : workspaces_)  // a core that is busy now may join this pass later
    workspace.inner.reserve(chunk_rows_ * std::max(2 * c_.hidden, c_.intermediate));
  share_attention_capacity(std::span(workspaces_));
  kv_.reserve(batch_->rows());
}

// Gathers the items of all tokens to where `embed` reads them, and behind them the items that are
// read out, in one call: each row is fetched once.
void CpuSasrec::gather_items() {
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
void CpuSasrec::for_rows(Team::Pass& pass, Work&& work) {
  const double row_operations = 2.0 * c_.hidden * (4.0 * c_.hidden + 2.0 * c_.intermediate);
  run_chunks(pass, rows_, chunk_rows_, row_operations,
             [&](Rows rows, std::uint32_t worker) { work(rows, workspaces_[worker]); });
}

// Computes a layer's keys, values and queries from the mixed heads of the layer before (or the
// embedding). The last layer's queries wait until only the read rows are left.
void CpuSasrec::run_rows(Team::Pass& pass, std::uint32_t layer) {
  for_rows(pass, [&](Rows rows, SasrecWorkspace& w) {
    if (layer == 0)
      embed(rows, w);
    else
      finish_layer(weights_->layers[layer - 1], rows, w);
    make_keys_values(weights_->layers[layer], rows, w);
    if (!is_last(layer)) make_queries(weights_->layers[layer], rows, w);
  });
  if (!is_last(layer)) return;
  keep_read_rows();
  for_rows(pass, [&](Rows rows, SasrecWorkspace& w) { make_queries(weights_->layers[layer], rows, w); });
}

void CpuSasrec::embed(Rows rows, SasrecWorkspace& w) {
  PartTimer timer(timed(w, &PassTimes::embedding));
  const float scale = std::sqrt(static_cast<float>(c_.hidden));
  for (std::size_t row = rows.begin; row < rows.begin + rows.count; ++row) {
    const float* const position =
        &weights_->positions.values[std::size_t{batch_->positions[row]} * c_.hidden];
    float* const out = state(row);
    const float* const item =
        weights_->table ? out
                        : &weights_->items.values[static_cast<std::size_t>(batch_->tokens[row]) * c_.hidden];
    for (std::size_t i = 0; i < c_.hidden; ++i) out[i] = scale * item[i] + position[i];
  }
}

// Keys and values come from the state itself, not from its norm.
void CpuSasrec::make_keys_values(const PackedSasrecLayer& layer, Rows rows, SasrecWorkspace& w) {
  {
    PartTimer timer(timed(w, &PassTimes::linear));
    layer.keys_values.run(state(rows.begin), w.inner.data(), rows.count);
  }
  PartTimer timer(timed(w, &PassTimes::keys_values));
  kv_.store(static_cast<std::uint32_t>(rows.begin), static_cast<std::uint32_t>(rows.count), w.inner.data(),
            w.inner.data() + c_.hidden, std::size_t{2} * c_.hidden);
}

// Norms the state, which is the residual of attention, and computes queries from it.
void CpuSasrec::make_queries(const PackedSasrecLayer& layer, Rows rows, SasrecWorkspace& w) {
  norm_rows(rows, w);
  PartTimer timer(timed(w, &PassTimes::linear));
  layer.query.run(state(rows.begin), query_.data() + rows.begin * c_.hidden, rows.count);
}

void CpuSasrec::norm_rows(Rows rows, SasrecWorkspace& w) {
  PartTimer timer(timed(w, &PassTimes::elementwise));
  NormTask norm{.in = state(rows.begin), .out = state(rows.begin)};
  norm.in_stride = norm.out_stride = norm.width = c_.hidden;
  norm.rows = rows.count;
  norm.epsilon = static_cast<float>(c_.epsilon);
  kernels_.gates->norm(norm);
}

// Moves the states of the rows with a readout to the front; the others end here.
void CpuSasrec::keep_read_rows() {
  const std::vector<std::uint32_t>& read_rows = batch_->read.rows;
  for (std::size_t to = 0; to < read_rows.size(); ++to)
    if (read_rows[to] != to) std::copy_n(state(read_rows[to]), c_.hidden, state(to));
  rows_ = read_rows.size();
}

// Keys and values that are kept go to their pages while attention runs: both only read this
// layer's.
void CpuSasrec::run_attention(Team::Pass& pass, std::uint32_t layer) {
  const AttentionParts& attention = is_last(layer) ? read_rows_ : all_rows_;
  const std::size_t parts = attention.parts.size();
  double operations = 4 * attention.pairs * c_.hidden;
  for (const KeptSegment& segment : batch_->kept) operations += copies_cost * segment.tokens * 2 * c_.hidden;
  pass.run(parts + batch_->kept.size(), operations, [&](std::size_t part, std::uint32_t worker) {
    SasrecWorkspace& w = workspaces_[worker];
    if (part < parts) return attend_part(attention.parts[part], layer, w);
    PartTimer timer(timed(w, &PassTimes::keys_values));
    kv_.keep(batch_->kept[part - parts], layer);
  });
}

void CpuSasrec::attend_part(const AttentionPart& part, std::uint32_t layer, SasrecWorkspace& w) {
  PartTimer timer(timed(w, &PassTimes::attention));
  const RowGroup& group = batch_->groups[part.group];
  const RowSet& read = batch_->read;
  const std::size_t rows = part.row_end - part.row_begin, begin = part.row_begin;
  AttendTask task;
  task.query_stride = task.out_stride = c_.hidden;
  task.rows = static_cast<std::uint32_t>(rows);
  task.heads = 1;
  task.head_dim = c_.head_dim();
  task.scale = 1 / std::sqrt(static_cast<float>(c_.head_dim()));
  task.tail_begin = std::span(is_last(layer) ? read.begin : batch_->visible_begin).subspan(begin, rows);
  task.tail_end = std::span(is_last(layer) ? read.end : batch_->visible_end).subspan(begin, rows);
  const std::size_t at = begin * c_.hidden + std::size_t{part.head} * c_.head_dim();
  task.queries = query_.data() + at;
  task.out = mixed_.data() + at;
  kv_.resolve(std::span(batch_->spans).subspan(group.span_begin, group.span_end - group.span_begin),
              no_turns_, layer, part.head, w.context);
  task.context = w.context;
  w.tail.assign(1, kv_.rows(part.head, group.row_begin, *std::ranges::max_element(task.tail_end)));
  task.tail = w.tail;
  task.may_round = options_.weights != WeightFormat::f32;
  kernels_.attend(task, w.attend);
}

// Adds the mixed heads to the residual, norms it, and adds the feed-forward part.
void CpuSasrec::finish_layer(const PackedSasrecLayer& layer, Rows rows, SasrecWorkspace& w) {
  {
    PartTimer timer(timed(w, &PassTimes::linear));
    layer.output.add(mixed_.data() + rows.begin * c_.hidden, state(rows.begin), rows.count);
  }
  norm_rows(rows, w);
  float* const inner = w.inner.data();
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

void CpuSasrec::read(std::span<const Request> requests, std::span<Reply> replies) {
  PartTimer timer(timed(workspaces_[0], &PassTimes::readout));
  for (std::size_t i = 0; i < requests.size(); ++i)
    replies[i].readouts.resize(requests[i].plan->readouts.size());
  const std::span<const BatchReadout> all = batch_->readouts;
  for (std::size_t first = 0; first < all.size();) {
    const std::size_t end = end_of_alike(first);
    if (all[first].what == Readout::What::state)
      replies[all[first].request].readouts[all[first].index].assign(state(all[first].read_row),
                                                                    state(all[first].read_row) + c_.hidden);
    else
      read_items(first, end, replies);
    first = end;
  }
}

// Returns the end of the readouts from `first` on that ask for logits of the same items; a readout
// of a state is a run of one.
std::size_t CpuSasrec::end_of_alike(std::size_t first) const {
  const std::span<const BatchReadout> all = batch_->readouts;
  std::size_t end = first + 1;
  if (all[first].what == Readout::What::state) return end;
  while (end < all.size() && all[end].what != Readout::What::state &&
         std::ranges::equal(all[end].vocabulary_rows, all[first].vocabulary_rows))
    ++end;
  return end;
}

// Computes logits of the same items for the readouts [first, end).
void CpuSasrec::read_items(std::size_t first, std::size_t end, std::span<Reply> replies) {
  const std::span<const BatchReadout> all = batch_->readouts;
  std::span<const Token> rows = all[first].vocabulary_rows;
  if (weights_->table) {
    const float* const from = state(gathered_at_[first]);
    read_items_.rows = static_cast<std::uint32_t>(rows.size());
    read_items_.columns = c_.hidden;
    read_items_.values.assign(from, from + rows.size() * c_.hidden);
    read_item_rows_.resize(rows.size());
    std::iota(read_item_rows_.begin(), read_item_rows_.end(), 0);
    rows = read_item_rows_;
  }
  const Matrix& items = weights_->table ? read_items_ : weights_->items;
  readout_states_.clear();
  readout_out_.clear();
  read_states_.resize(std::max(read_states_.size(), end - first));
  for (std::size_t i = first; i < end; ++i) {
    std::vector<float>& own = read_states_[i - first];
    own.assign(state(all[i].read_row), state(all[i].read_row) + c_.hidden);
    norm_output(own);
    std::vector<float>& logits = replies[all[i].request].readouts[all[i].index];
    logits.resize(rows.size());
    readout_states_.push_back(own.data());
    readout_out_.push_back(logits.data());
  }
  kernels_.items.readout(readout_states_, items, rows, readout_out_);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto row = static_cast<std::size_t>(rows[r]);
    const float factor =
        weights_->table ? item_factor(c_, &items.values[row * c_.hidden]) : weights_->item_factors[row];
    for (float* const logits : readout_out_) logits[r] *= factor;
  }
}

// Makes a state comparable with items.
void CpuSasrec::norm_output(std::vector<float>& state) const {
  if (c_.output_norm == SasrecOutputNorm::l2) {
    const float length = std::max(sasrec_length(state.data(), state.size()), float(c_.output_epsilon));
    for (float& value : state) value /= length;
    return;
  }
  NormTask norm{.in = state.data(), .out = state.data()};
  norm.rows = 1;
  norm.width = state.size();
  norm.epsilon = static_cast<float>(c_.output_epsilon);
  kernels_.gates->norm(norm);
}

std::unique_ptr<Executor> make_cpu_sasrec(SasrecModel model, const DecoderOptions& options,
                                          const SasrecKernels& kernels, Teams teams) {
  TROUPE_CHECK(options.page_tokens > 0, "sasrec: expected page_tokens above 0");
  TROUPE_CHECK(!teams.empty(), "sasrec: an executor needs at least one team");
  TROUPE_CHECK(options.weights != WeightFormat::int8, "sasrec: expected float32 or bf16 weights");
  return std::make_unique<CpuSasrec>(std::make_shared<const PackedSasrec>(
                                         pack_sasrec(std::move(model), {options.weights, *kernels.product})),
                                     std::make_shared<const Teams>(std::move(teams)),
                                     std::make_shared<std::mutex>(), 0, options, kernels);
}

std::unique_ptr<Executor> make_cpu_sasrec(SasrecModel model, const DecoderOptions& options) {
  return make_cpu_sasrec(std::move(model), options, {&gates(), &attend, &product_version(), {}},
                         make_teams(options.cores, options.executors, read_memory_nodes()));
}

}  // namespace troupe::kernels
