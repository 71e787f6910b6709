// The decoder on the CPU. One forward pass runs all computed tokens of all requests through the
// layers as the rows of one matrix. BatchPlanner has decided which rows belong together; LayerKv
// holds their keys and values. Between two attentions rows are independent: a chunk of rows goes
// from one layer's mixed heads through its feed-forward part to the next layer's keys and values
// while it is in cache, and idle cores take chunks. So a layer has two regions of parallel work,
// rows and attention. With few rows, cores share products by output features instead. In the last
// layer only rows with a readout go on past the keys and values: a ranking request has one.
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cpu/engine/decoder.h"

#include "kernels/cpu/products/byte_product.h"
#include "kernels/executor/passes.h"

namespace troupe::kernels {
namespace {

constexpr std::size_t chunk_rows_max = 256;
// Up to so many rows, idle cores share each product's output features instead of its rows: reading
// the weight takes most of the time, and then each core reads a part of it.
constexpr std::size_t few_rows = 64;
constexpr std::size_t readout_rows_at_once = 256;

}  // namespace

void CpuDecoder::run(std::span<const Request> requests, std::vector<Reply>& replies) {
  replies.resize(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].plan->search.width == 0) replies[i].beams.clear();  // otherwise their memory is reused
    replies[i].chosen.clear();
  }
  const bool searches =
      std::ranges::any_of(requests, [](const Request& request) { return request.plan->search.width > 0; });
  if (searches) return run_with_searches(requests, replies);
  run_in_passes(requests, replies, [this](auto some, auto answers) { return run_pass(some, answers); });
}

std::string CpuDecoder::run_pass(std::span<const Request> requests, std::span<Reply> replies) {
  const std::size_t tokens = computed_tokens(requests);
  std::size_t extra = 0;
  for (const Request& request : requests) extra += repair_bytes(c_, options_, *request.plan);
  const std::size_t rows = tokens + (extra + memory_.row_bytes - 1) / memory_.row_bytes;
  if (rows > memory_.tokens_max)
    return std::to_string(tokens) + " computed tokens" +
           (extra > 0 ? " and " + std::to_string(extra) + " bytes of repairs" : "") + "; expected at most " +
           std::to_string(memory_.tokens_max) + " in one pass";
  if (rows <= memory_.tokens_kept) {
    compute(requests, replies);
    return "";
  }
  // before taking the large memory, so that other large passes do not wait for this pass's pages
  wait_for(requests, c_.layers - 1);
  run_large_pass(
      *large_, [&] { compute(requests, replies); }, [&] { free_memory(); });
  return "";
}

// Frees a large pass's memory, so that the next large pass may be any executor's.
void CpuDecoder::free_memory() {
  const std::size_t rows = memory_.tokens_kept;
  state_.shrink(rows * widths_.state);
  qkv_.shrink(rows * widths_.qkv);
  mixed_.shrink(rows * widths_.mixed);
  kv_.shrink(rows);
  rope_.shrink(rows);
  some_rope_.shrink(rows);
  repairs_.free_memory();
  for (Workspace& w : workspaces_) w.attend = {};
  planner_ = BatchPlanner(c_, layout_);
  batch_ = nullptr;
}

void CpuDecoder::compute(std::span<const Request> requests, std::span<Reply> replies) {
  team_.bind_caller();
  Team::Pass pass(team_);
  const DecoderBatch& batch = [&]() -> const DecoderBatch& {
    PartTimer timer(timed(workspaces_[0], &PassTimes::planning));
    return planner_.plan(requests);
  }();
  start(batch, pass.workers());
  run_layers(pass, requests);
  read(pass, requests, replies);
  if (repairs_.any()) note_chosen(replies);
  if (times_ != nullptr) collect_times(std::span(workspaces_), *times_);
}

// Runs the layers up to the final states of the rows that are read.
void CpuDecoder::run_layers(Team::Pass& pass, std::span<const Request> requests) {
  for (std::uint32_t layer = 0; layer < c_.layers; ++layer) {
    run_rows(pass, layer);
    wait_for(requests, layer);
    if (repairs_.any()) repair_keys(pass, layer);
    run_attention(pass, layer);
    if (repairs_.any() && layer == 0) repair_after_attention(pass);
  }
  finish_rows(pass);
}

// Waits for pages in flight. Computing a layer's rows needs none of its pages; everything after
// may.
void CpuDecoder::wait_for(std::span<const Request> requests, std::uint32_t layer) const {
  for (const Request& request : requests)
    if (request.in_flight != nullptr && !request.in_flight->wait(layout_.keys(layer + 1, 0)))
      throw PagesNotArrived();
}

// Allocates the pass's memory.
void CpuDecoder::start(const DecoderBatch& batch, std::uint32_t workers) {
  PartTimer timer(timed(workspaces_[0], &PassTimes::planning));
  batch_ = &batch;
  rows_ = batch_->rows();
  chunk_rows_ = 0;
  set_chunks(workers);
  set_ = nullptr;
  cut_attention(*batch_, nullptr, c_.heads, c_.kv_heads, workers, all_rows_);
  cut_attention(*batch_, &batch_->read, c_.heads, c_.kv_heads, workers, read_rows_);
  state_.reserve(rows_ * widths_.state);
  qkv_.reserve(rows_ * widths_.qkv);
  mixed_.reserve(rows_ * widths_.mixed);
  // Each core that may take a chunk gets memory for it beforehand; memory that is never touched
  // takes no pages.
  const std::uint32_t working = workers > 1 ? team_.cores() : 1;
  for (std::uint32_t worker = 0; worker < working; ++worker) workspace(worker);
  share_capacity(workspaces_);
  kv_.reserve(batch_->rows());
  rope_.gather(batch_->positions);
  key_rotations_.gather_distances(batch_->rotation_distances);
  repairs_.start(*batch_);
}

// Sets the chunks of the current rows. Chunks do not grow within a pass: the first ones fit the
// memory.
void CpuDecoder::set_chunks(std::uint32_t workers) {
  const std::size_t rows = rows_ <= few_rows && options_.weights != WeightFormat::int8
                               ? few_rows
                               : chunk_rows(rows_, workers, chunk_rows_max);
  chunk_rows_ = chunk_rows_ == 0 ? rows : std::min(chunk_rows_, rows);
}

// Runs `work` for all rows: chunk by chunk, shared among idle cores, or in one chunk whose products
// they share.
template <class Work>
void CpuDecoder::for_rows(Team::Pass& pass, Work&& work) {
  if (rows_ <= chunk_rows_) {
    // Few rows: idle cores share each product. After a pass that threw this stays set for
    // the next to overwrite.
    sharing_ = rows_ <= few_rows && options_.weights != WeightFormat::int8 ? &pass : nullptr;
    if (rows_ > 0) work(Rows{0, rows_}, workspace(0));
    sharing_ = nullptr;
    return;
  }
  sharing_ = nullptr;
  run_chunks(pass, rows_, chunk_rows_, row_operations(),
             [&](Rows rows, std::uint32_t worker) { work(rows, workspace(worker)); });
}

// out = linear(in), or out += linear(in), for `rows` dense rows.
void CpuDecoder::multiply(const Linear& linear, const float* in, float* out, std::size_t rows, bool add,
                          Workspace& w) {
  const auto product = [&](FeaturePart features, Workspace& workspace) {
    PartTimer timer(timed(workspace, &PassTimes::linear));
    if (add)
      linear.add(in, out, rows, features);
    else
      linear.run(in, out, rows, features);
  };
  if (sharing_ == nullptr) {
    product({}, w);
    return;
  }
  // With few rows, reading the weight dominates: it costs as much as computing this many rows.
  constexpr std::size_t rows_worth_reading = 12;
  const double operations =
      2.0 * linear.rows() * linear.columns() * static_cast<double>(std::max(rows, rows_worth_reading));
  const std::size_t parts = std::min<std::size_t>(linear.parts_max(), 2 * team_.cores());
  sharing_->run(parts, operations, [&](std::size_t part, std::uint32_t worker) {
    product({part, parts}, workspaces_[worker]);
  });
}

// Computes a layer's queries, keys and values from the mixed heads of the layer before (or the
// embedding).
void CpuDecoder::run_rows(Team::Pass& pass, std::uint32_t layer) {
  for_rows(pass, [&](Rows rows, Workspace& w) {
    if (layer == 0) {
      embed(rows, w);
    } else {
      add_attention(weights_->layers[layer - 1], rows, w);
      add_feed_forward(weights_->layers[layer - 1], rows, w);
    }
    make_queries_keys_values(weights_->layers[layer], rows, w);
  });
}

// Keys and values that are kept go to their pages while attention runs: both only read this
// layer's.
void CpuDecoder::run_attention(Team::Pass& pass, std::uint32_t layer) {
  if (is_last(layer)) keep_read_rows();
  const AttentionParts& attention = is_last(layer) ? read_rows_ : set_ != nullptr ? some_rows_ : all_rows_;
  const std::size_t parts = attention.parts.size();
  if (repairs_.any() && layer == 0) repairs_.allocate_mass(attention, set_);
  double operations = 4 * attention.pairs * static_cast<double>(q_width());
  for (const KeptSegment& segment : batch_->kept)
    operations += copies_cost * static_cast<double>(segment.tokens * 2 * kv_width());
  const std::size_t kept = parts + batch_->kept.size();
  pass.run(kept + tails_.size(), operations, [&](std::size_t part, std::uint32_t worker) {
    Workspace& w = workspaces_[worker];
    if (part < parts) {
      attend_part(attention.parts[part], layer, repairs_.any() && layer == 0 ? repairs_.mass(part) : nullptr,
                  w);
      return;
    }
    PartTimer timer(timed(w, &PassTimes::keys_values));
    if (part < kept) {
      kv_.keep(batch_->kept[part - parts], layer);
    } else {
      const BeamGroup& beams = tails_[part - kept];
      const RowGroup& group = batch_->groups[part - kept];
      if (group.row_begin == beams.first_row) beams.tails->keep(kv_, beams.first_row, beams.rows, layer);
    }
  });
}

// Returns the worker's memory, which holds a chunk.
Workspace& CpuDecoder::workspace(std::uint32_t worker) {
  Workspace& w = workspaces_[worker];
  w.normed.reserve(chunk_rows_ * c_.hidden);
  w.gate_up.reserve(chunk_rows_ * 2 * c_.intermediate);
  w.activated.reserve(chunk_rows_ * c_.intermediate);
  return w;
}

void CpuDecoder::embed(Rows rows, Workspace& w) {
  PartTimer timer(timed(w, &PassTimes::embedding));
  float* out = state_.data() + rows.begin * c_.hidden;
  for (const Token token : std::span(batch_->tokens).subspan(rows.begin, rows.count)) {
    out =
        std::copy_n(&weights_->embedding.values[static_cast<std::size_t>(token) * c_.hidden], c_.hidden, out);
  }
}

// Queries, keys and values of the rows side by side; queries and keys are normed (Qwen3) and rotated in
// place.
void CpuDecoder::make_queries_keys_values(const PackedLayer& layer, Rows rows, Workspace& w) {
  const std::size_t stride = qkv_width(), rotated_heads = c_.heads + c_.kv_heads;
  float* const qkv = qkv_.data() + rows.begin * stride;
  {
    PartTimer timer(timed(w, &PassTimes::elementwise));
    norm(state_.data() + rows.begin * c_.hidden, layer.input_norm, rows.count, w.normed.data());
  }
  multiply(layer.qkv, w.normed.data(), qkv, rows.count, false, w);
  {
    PartTimer timer(timed(w, &PassTimes::elementwise));
    for (std::size_t head = 0; c_.qk_norm && head < rotated_heads; ++head) {
      const std::vector<float>& weight = head < c_.heads ? layer.q_norm : layer.k_norm;
      float* at = qkv + head * c_.head_dim;
      ops_.rms_norm(at, stride, weight.data(), static_cast<float>(c_.rms_epsilon), at, stride, rows.count,
                    c_.head_dim);
    }
    const std::size_t angles = rows.begin * c_.head_dim / 2;
    const RopeTable& rope = set_ != nullptr ? some_rope_ : rope_;
    ops_.rope(qkv, stride, rows.count, rotated_heads, c_.head_dim, rope.cosines() + angles,
              rope.sines() + angles);
  }
  PartTimer timer(timed(w, &PassTimes::keys_values));
  store_keys_values(rows, qkv + q_width());
}

// Consecutive rows of the pass are stored together.
void CpuDecoder::store_keys_values(Rows rows, const float* keys) {
  const std::size_t stride = qkv_width();
  for (std::size_t at = 0, end = 0; at < rows.count; at = end) {
    const auto first =
        static_cast<std::uint32_t>(set_ != nullptr ? set_->rows[rows.begin + at] : rows.begin + at);
    for (end = at + 1; end < rows.count; ++end)
      if (set_ != nullptr && set_->rows[rows.begin + end] != first + (end - at)) break;
    const float* const from = keys + at * stride;
    kv_.store(first, static_cast<std::uint32_t>(end - at), from, from + kv_width(), stride);
  }
}

// Ends the rows without a readout. The remaining rows need only their queries from now on.
void CpuDecoder::keep_read_rows() { keep_rows(batch_->read, KeptOutputs::queries); }

// Moves the set's rows to the front; the others end here. Beside their state, the rows keep their
// queries or their attention outputs.
void CpuDecoder::keep_rows(const RowSet& set, KeptOutputs carried) {
  for (std::size_t to = 0; to < set.rows.size(); ++to) {
    const std::size_t from = set_ == nullptr ? set.rows[to] : set_->index_of(set.rows[to]);
    if (from == to) continue;
    std::copy_n(state_.data() + from * c_.hidden, c_.hidden, state_.data() + to * c_.hidden);
    if (carried == KeptOutputs::queries)
      std::copy_n(qkv_.data() + from * qkv_width(), q_width(), qkv_.data() + to * qkv_width());
    else
      std::copy_n(mixed_.data() + from * q_width(), q_width(), mixed_.data() + to * q_width());
  }
  set_ = &set;
  rows_ = set.rows.size();
}

void CpuDecoder::attend_part(const AttentionPart& part, std::uint32_t layer, float* mass, Workspace& w) {
  PartTimer timer(timed(w, &PassTimes::attention));
  const RowGroup& group = batch_->groups[part.group];
  const std::size_t rows = part.row_end - part.row_begin, begin = part.row_begin;
  const auto interval = [&](const std::vector<std::uint32_t>& all) {
    return std::span(all).subspan(begin, rows);
  };
  AttendTask task;
  task.query_stride = qkv_width();
  task.out_stride = q_width();
  task.rows = static_cast<std::uint32_t>(rows);
  task.heads = c_.heads / c_.kv_heads;
  task.head_dim = c_.head_dim;
  task.scale = 1 / std::sqrt(static_cast<float>(c_.head_dim));
  task.tail_begin = interval(set_ != nullptr ? set_->begin : batch_->visible_begin);
  task.tail_end = interval(set_ != nullptr ? set_->end : batch_->visible_end);
  task.mass = mass;
  task.may_round = options_.weights != WeightFormat::f32;
  if (mass != nullptr) {
    const std::size_t measured_from =
        set_ != nullptr ? set_->index_of(group.measured_from) : group.measured_from;
    task.mass_from = static_cast<std::uint32_t>(std::max(measured_from, begin) - begin);
  }
  const std::size_t first_query = std::size_t{part.head} * task.heads * c_.head_dim;
  task.queries = qkv_.data() + begin * task.query_stride + first_query;
  task.out = mixed_.data() + begin * task.out_stride + first_query;
  kv_.resolve(std::span(batch_->spans).subspan(group.span_begin, group.span_end - group.span_begin),
              key_rotations_, layer, part.head, w.context);
  task.context = w.context;
  if (tails_.empty()) {
    w.tail.assign(1, kv_.rows(part.head, group.row_begin, *std::ranges::max_element(task.tail_end)));
  } else {
    const BeamGroup& beams = tails_[part.group];
    beams.tails->resolve(kv_, beams.first_row, group.row_begin - beams.first_row,
                         part.row_end - group.row_begin, layer, part.head, w.tail);
    task.mask = beams.tails->mask(part.row_begin - beams.first_row);
    task.mask_stride = beams.tails->mask_stride();
  }
  task.tail = w.tail;
  vector_kernels_.attend(task, w.attend);
}

void CpuDecoder::add_attention(const PackedLayer& layer, Rows rows, Workspace& w) {
  multiply(layer.o, mixed_.data() + rows.begin * q_width(), state_.data() + rows.begin * c_.hidden,
           rows.count, true, w);
}

void CpuDecoder::add_feed_forward(const PackedLayer& layer, Rows rows, Workspace& w) {
  float* const state = state_.data() + rows.begin * c_.hidden;
  {
    PartTimer timer(timed(w, &PassTimes::elementwise));
    norm(state, layer.post_attention_norm, rows.count, w.normed.data());
  }
  multiply(layer.gate_up, w.normed.data(), w.gate_up.data(), rows.count, false, w);
  {
    PartTimer timer(timed(w, &PassTimes::elementwise));
    ops_.swiglu(w.gate_up.data(), 2 * c_.intermediate, w.activated.data(), c_.intermediate, rows.count,
                c_.intermediate);
  }
  multiply(layer.down, w.activated.data(), state, rows.count, true, w);
}

// out = RMSNorm(in), dense rows of hidden features.
void CpuDecoder::norm(const float* in, const std::vector<float>& weight, std::size_t rows, float* out) {
  ops_.rms_norm(in, c_.hidden, weight.data(), static_cast<float>(c_.rms_epsilon), out, c_.hidden, rows,
                c_.hidden);
}

// Computes the rest of the last layer for the rows with a readout.
void CpuDecoder::finish_rows(Team::Pass& pass) {
  for_rows(pass, [&](Rows rows, Workspace& w) {
    add_attention(weights_->layers.back(), rows, w);
    add_feed_forward(weights_->layers.back(), rows, w);
    PartTimer timer(timed(w, &PassTimes::elementwise));
    float* const state = state_.data() + rows.begin * c_.hidden;
    norm(state, weights_->final_norm, rows.count, state);
  });
}

void CpuDecoder::read(Team::Pass& pass, std::span<const Request> requests, std::span<Reply> replies) {
  for (std::size_t i = 0; i < requests.size(); ++i)
    replies[i].readouts.resize(requests[i].plan->readouts.size());
  const std::span<const BatchReadout> all = batch_->readouts;
  for (std::size_t first = 0, end = 0; first < all.size(); first = end) {
    end = end_of_alike(all, first);
    if (all[first].what == Readout::What::state) {
      const float* const state = state_.data() + all[first].read_row * std::size_t{c_.hidden};
      replies[all[first].request].readouts[all[first].index].assign(state, state + c_.hidden);
      continue;
    }
    const std::span<const Token> rows = all[first].vocabulary_rows;
    readout_states_.clear();
    readout_out_.clear();
    for (const BatchReadout& readout : all.subspan(first, end - first)) {
      std::vector<float>& out = replies[readout.request].readouts[readout.index];
      out.resize(rows.size());
      readout_states_.push_back(state_.data() + readout.read_row * std::size_t{c_.hidden});
      readout_out_.push_back(out.data());
    }
    read_rows(pass, rows);
  }
}

// Computes logits of the same vocabulary rows for all of readout_states_.
void CpuDecoder::read_rows(Team::Pass& pass, std::span<const Token> rows) {
  const std::size_t parts = (rows.size() + readout_rows_at_once - 1) / readout_rows_at_once;
  const double operations = 2.0 * static_cast<double>(rows.size() * readout_states_.size()) * c_.hidden;
  pass.run(parts, operations, [&](std::size_t part, std::uint32_t worker) {
    Workspace& w = workspaces_[worker];
    PartTimer timer(timed(w, &PassTimes::readout));
    const std::size_t first = part * readout_rows_at_once;
    w.logits.clear();
    for (float* out : readout_out_) w.logits.push_back(out + first);
    vector_kernels_.readout(readout_states_, weights_->output_rows(),
                            rows.subspan(first, std::min(readout_rows_at_once, rows.size() - first)),
                            w.logits);
  });
}

double CpuDecoder::row_operations() const {
  const double attention = static_cast<double>(qkv_width() + q_width()), inner = 3.0 * c_.intermediate;
  return 2 * c_.hidden * (attention + inner);
}

std::string weight_variant(WeightFormat format, KvFormat kv) {
  if (format == WeightFormat::f32) return "";
  std::string variant;
  if (format == WeightFormat::int8)
    variant = byte_product_version().weight_limit() < 127 ? "7 bits" : "8 bits";
  const bool rounds = format == WeightFormat::bf16 || kv == KvFormat::bf16;
  return variant + (rounds && product_version().rounds_input ? " by bf16" : "");
}

std::unique_ptr<Executor> make_cpu_decoder(DecoderModel model, const DecoderOptions& options,
                                           const VectorKernels& vector_kernels, Teams teams) {
  TROUPE_CHECK(options.page_tokens > 0, "decoder: expected page_tokens above 0");
  TROUPE_CHECK(!teams.empty(), "decoder: an executor needs at least one team");
  return std::make_unique<CpuDecoder>(
      std::make_shared<const PackedDecoder>(
          pack_decoder(std::move(model), {options.weights, *vector_kernels.product, *vector_kernels.bytes})),
      std::make_shared<const Teams>(std::move(teams)), std::make_shared<std::mutex>(), 0, options,
      vector_kernels);
}

std::unique_ptr<Executor> make_cpu_decoder(DecoderModel model, const DecoderOptions& options) {
  return make_cpu_decoder(std::move(model), options,
                          {&elementwise(), &attend, &readout_rows, &sum_exponentials, &product_version()},
                          make_teams(options.cores, options.executors, read_memory_nodes()));
}

}  // namespace troupe::kernels
