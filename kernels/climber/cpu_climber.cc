// Runs Climber on the CPU. Each tower (a sub-model that reads a part of the history) is a small
// transformer. A gate fuses the towers, then experts and task heads give a candidate's logits.
#include "kernels/climber/cpu_climber.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/executor/passes.h"

namespace troupe::kernels {
namespace {

// Maximum rows of a chunk: enough rows per load of the weights, while the rows' activations stay in
// the second-level cache.
constexpr std::uint32_t chunk_rows_max = 192, tile_rows = 12;
// Each part of attention packs the keys that it sees for itself; fewer rows would not pay for that.
constexpr std::uint32_t attention_rows_min = 96;
constexpr std::uint32_t scored_at_once = 96;

struct Cut {
  std::uint32_t pieces, rows;  // the last piece may have fewer
};
Cut cut_evenly(std::uint32_t rows, std::uint32_t most) {
  if (rows == 0) return {0, 0};
  const std::uint32_t pieces = (rows + most - 1) / most;
  const std::uint32_t each = ((rows + pieces - 1) / pieces + tile_rows - 1) / tile_rows * tile_rows;
  return {(rows + each - 1) / each, each};
}

}  // namespace

KvLayout kv_layout(const ClimberConfig& config, std::uint32_t page_tokens, KvFormat format) {
  return {config.layers, config.heads, config.head_dim(), page_tokens, format};
}

PageLayout page_layout(const ClimberConfig& config, const DecoderOptions& options) {
  return page_layout(kv_layout(config, options.page_tokens, options.kv));
}

ClimberPassMemory pass_memory(const ClimberConfig& config, const DecoderOptions& options) {
  const KvLayout layout = kv_layout(config, options.page_tokens, options.kv);
  const std::size_t row = (5 * std::size_t{config.hidden} + 2 * config.head_dim()) * sizeof(float) +
                          8 * sizeof(std::uint32_t) + 2 * layout.kv_heads * layout.vector_bytes();
  ClimberPassMemory memory{config.towers.size() * (row + config.hidden * sizeof(float)), SIZE_MAX};
  if (options.memory_bytes == 0) return memory;
  std::size_t longest = 1;  // all histories and one candidate
  for (const ClimberTower& tower : config.towers) longest += tower.positions;
  memory.tokens_max = std::max({options.memory_bytes / std::max(1u, options.executors) / memory.token_bytes,
                                std::size_t{options.batch_tokens}, longest});
  return memory;
}

CpuClimber::CpuClimber(std::shared_ptr<const PackedClimber> weights, std::shared_ptr<Team> team,
                       const DecoderOptions& options, const ClimberKernels& vector_kernels)
    : weights_(std::move(weights)),
      team_(std::move(team)),
      c_(weights_->config),
      options_(options),
      memory_(pass_memory(c_, options)),
      layout_(kv_layout(c_, options.page_tokens, options.kv)),
      pages_(page_layout(layout_)),
      vector_kernels_(vector_kernels),
      planner_(c_, layout_),
      kv_(layout_),
      key_rotations_({}),
      workspaces_(team_->cores()) {}

void CpuClimber::run(std::span<const Request> requests, std::vector<Reply>& replies) {
  start_replies(requests, replies);
  run_in_passes(requests, replies, [this](auto some, auto answers) { return run_pass(some, answers); });
}

std::string CpuClimber::run_pass(std::span<const Request> requests, std::span<Reply> replies) {
  const std::size_t tokens = computed_tokens(requests);
  if (std::string beyond = validate_tokens(tokens, memory_.tokens_max); !beyond.empty()) return beyond;
  Team::Pass pass(*team_);
  timed(workspaces_[0], &PassTimes::planning, [&] {
    batch_ = &planner_.plan(requests);
    for (std::byte* page : batch_->unread) std::memset(page, 0, layout_.page_bytes());
    start(pass.workers());
  });
  if (weights_->table) gather_items();
  for (std::uint32_t layer = 0; layer < c_.layers; ++layer) {
    run_rows(pass, layer);
    run_attention(pass, layer);
  }
  finish_towers(pass);
  score(pass);
  for (std::size_t r = 0; r < requests.size(); ++r)
    replies[r].readouts.resize(requests[r].plan->readouts.size());
  read(replies);
  if (times_ != nullptr) collect_times(std::span(workspaces_), *times_);
  return "";
}

// Allocates the pass's memory, and partitions its work.
void CpuClimber::start(std::uint32_t workers) {
  const std::size_t rows = batch_->rows();
  cut_rows(workers);
  cut_attention(workers);
  state_.reserve(rows * c_.hidden);
  qkv_.reserve(rows * 3 * c_.hidden);
  mixed_.reserve(rows * c_.hidden);
  ends_.reserve(std::size_t{batch_->candidates} * c_.fused());
  logits_.reserve(std::size_t{batch_->candidates} * c_.tasks.size());
  kv_.reserve(batch_->rows());
  const std::size_t wide = std::max(c_.intermediate, 2 * c_.hidden);
  const std::size_t inner =
      std::size_t{c_.experts} * (c_.expert_size + c_.tasks.size()) + c_.expert_size + c_.head_size;
  for (Workspace& w : workspaces_) {  // a core that is busy now may join this pass later
    w.normed.reserve(chunk_rows_ * c_.hidden);
    w.gate_up.reserve(std::max(chunk_rows_ * wide, std::size_t{scored_at_once} * c_.fused()));
    w.activated.reserve(scored_at_once * inner);
  }
  share_capacity(std::span(workspaces_));
}

void CpuClimber::cut_rows(std::uint32_t workers) {
  chunks_.clear();
  candidate_chunks_.clear();
  const std::uint32_t most = !vector_kernels_.by_chunks ? std::max(1u, batch_->rows() / workers + 1)
                             : workers == 1
                                 ? chunk_rows_max
                                 : std::clamp(batch_->rows() / (2 * workers), 2 * tile_rows, chunk_rows_max);
  const auto add = [&](std::uint32_t tower, std::uint32_t begin, std::uint32_t end, bool candidates) {
    const Cut cut = cut_evenly(end - begin, most);
    for (std::uint32_t i = 0; i < cut.pieces; ++i) {
      const std::uint32_t from = begin + i * cut.rows;
      chunks_.push_back({tower, from, std::min(cut.rows, end - from), candidates});
      if (candidates) candidate_chunks_.push_back(chunks_.back());
    }
  };
  for (std::uint32_t tower = 0; tower < batch_->towers.size(); ++tower) {
    const ClimberRows& rows = batch_->towers[tower];
    add(tower, rows.begin, rows.candidates, false);
    add(tower, rows.candidates, rows.end, true);
  }
  chunk_rows_ = 0;
  for (const Chunk& chunk : chunks_) chunk_rows_ = std::max<std::size_t>(chunk_rows_, chunk.rows);
}

// Parts of candidates come first, as the last layer has only these.
void CpuClimber::cut_attention(std::uint32_t workers) {
  parts_.clear();
  pairs_ = 0;
  const std::size_t whole = batch_->groups.size() * c_.heads,
                    wanted = workers == 1 ? 1 : std::size_t{4} * workers;
  const auto cuts = static_cast<std::uint32_t>((wanted + whole - 1) / std::max<std::size_t>(1, whole));
  for (const bool candidates : {true, false}) {
    for (const ClimberGroup& group : batch_->groups) {
      if (group.candidates != candidates) continue;
      std::uint32_t context = 0;
      for (std::uint32_t s = group.span_begin; s < group.span_end; ++s) context += batch_->spans[s].tokens;
      for (std::uint32_t r = group.row_begin; r < group.row_end; ++r)
        pairs_ += context + batch_->visible_end[r] - batch_->visible_begin[r];
      const std::uint32_t rows = group.row_end - group.row_begin;
      const std::uint32_t blocks = std::clamp(rows / attention_rows_min, 1u, std::max(1u, cuts));
      for (std::uint32_t b = 0; b < blocks; ++b)
        for (std::uint32_t head = 0; head < c_.heads; ++head)
          parts_.push_back(
              {&group, head, group.row_begin + rows * b / blocks, group.row_begin + rows * (b + 1) / blocks});
    }
    if (!candidates) continue;
    candidate_parts_ = parts_.size();
    candidate_pairs_ = pairs_;
  }
}

// Gathers the items of all rows to where `embed` reads them, in one call: each row is fetched once
// for all towers.
void CpuClimber::gather_items() {
  timed(workspaces_[0], &PassTimes::embedding,
        [&] { weights_->table->fetch(batch_->tokens, state_.data()); });
}

template <class Work>
void CpuClimber::timed(Workspace& w, double PassTimes::*part, Work&& work) {
  const PartTimer timer(times_ == nullptr ? nullptr : &(w.times.*part));
  work();
}

void CpuClimber::multiply(const Linear& linear, const float* in, float* out, std::size_t rows, bool add,
                          Workspace& w) {
  timed(w, &PassTimes::linear, [&] { add ? linear.add(in, out, rows) : linear.run(in, out, rows); });
}

void CpuClimber::norm(const float* in, const NormWeights& weights, float* out, std::size_t out_stride,
                      std::size_t rows, Workspace& w) {
  timed(w, &PassTimes::elementwise, [&] {
    NormTask task{.in = in, .out = out};
    task.in_stride = task.width = c_.hidden;
    task.out_stride = out_stride;
    task.rows = rows;
    task.weight = weights.weight.data(), task.bias = weights.bias.data();
    task.epsilon = static_cast<float>(c_.norm_epsilon);
    gates_.norm(task);
  });
}

// Computes a layer's queries, keys and values from the mixed heads of the layer before (or the
// embedding).
void CpuClimber::run_rows(Team::Pass& pass, std::uint32_t layer) {
  const double row_operations = 2.0 * c_.hidden * (4.0 * c_.hidden + 2.0 * c_.intermediate);
  pass.run(chunks_.size(), row_operations * batch_->rows(), [&](std::size_t part, std::uint32_t worker) {
    const Chunk& chunk = chunks_[part];
    Workspace& w = workspaces_[worker];
    if (layer == 0)
      embed(chunk, w);
    else
      finish_layer(chunk, layer - 1, w);
    make_queries_keys_values(chunk, layer, w);
  });
}

void CpuClimber::embed(const Chunk& chunk, Workspace& w) {
  timed(w, &PassTimes::embedding, [&] {
    const std::size_t d = c_.hidden;
    for (std::size_t r = chunk.begin; r < chunk.begin + chunk.rows; ++r) {
      const float* const action = &weights_->actions.values[batch_->actions[r] * d];
      const float* const position = &weights_->towers[chunk.tower].positions.values[batch_->positions[r] * d];
      float* const out = state(r);
      const float* const item =
          weights_->table ? out : &weights_->items.values[static_cast<std::size_t>(batch_->tokens[r]) * d];
      for (std::size_t i = 0; i < d; ++i) out[i] = item[i] + action[i] + position[i];
    }
  });
}

void CpuClimber::make_queries_keys_values(const Chunk& chunk, std::uint32_t layer, Workspace& w) {
  const PackedClimberTower& tower = weights_->towers[chunk.tower];
  const std::size_t d = c_.hidden;
  norm(state(chunk.begin), tower.layers[layer].attention_norm, w.normed.data(), d, chunk.rows, w);
  const bool ends_here = is_last(layer) && !chunk.candidates;
  float* const out = ends_here ? w.gate_up.data() : qkv_.data() + chunk.begin * 3 * d;
  multiply(ends_here ? tower.last_kv : tower.layers[layer].qkv, w.normed.data(), out, chunk.rows, false, w);
  const float* const keys = ends_here ? out : out + d;
  timed(w, &PassTimes::keys_values,
        [&] { kv_.store(chunk.begin, chunk.rows, keys, keys + d, ends_here ? 2 * d : 3 * d); });
}

// Computes the part of a layer after its attention.
void CpuClimber::finish_layer(const Chunk& chunk, std::uint32_t layer, Workspace& w) {
  const PackedClimberLayer& weights = weights_->towers[chunk.tower].layers[layer];
  multiply(weights.output, mixed_.data() + std::size_t{chunk.begin} * c_.hidden, state(chunk.begin),
           chunk.rows, true, w);
  norm(state(chunk.begin), weights.ffn_norm, w.normed.data(), c_.hidden, chunk.rows, w);
  float* const inner = w.gate_up.data();
  multiply(weights.fc1, w.normed.data(), inner, chunk.rows, false, w);
  timed(w, &PassTimes::elementwise,
        [&] { gates_.silu(inner, c_.intermediate, chunk.rows, c_.intermediate); });
  multiply(weights.fc2, inner, state(chunk.begin), chunk.rows, true, w);
}

// Keys and values that are kept go to their pages while attention runs: both only read this
// layer's.
void CpuClimber::run_attention(Team::Pass& pass, std::uint32_t layer) {
  const std::size_t parts = is_last(layer) ? candidate_parts_ : parts_.size();
  double operations = 4 * (is_last(layer) ? candidate_pairs_ : pairs_) * c_.hidden;
  for (const KeptSegment& segment : batch_->kept) operations += copies_cost * segment.tokens * 2 * c_.hidden;
  pass.run(parts + batch_->kept.size(), operations, [&](std::size_t part, std::uint32_t worker) {
    Workspace& w = workspaces_[worker];
    if (part < parts)
      timed(w, &PassTimes::attention, [&] { attend_part(parts_[part], layer, w); });
    else
      timed(w, &PassTimes::keys_values, [&] { kv_.keep(batch_->kept[part - parts], layer); });
  });
}

void CpuClimber::attend_part(const AttentionPart& part, std::uint32_t layer, Workspace& w) {
  const ClimberGroup& group = *part.group;
  const std::size_t rows = part.row_end - part.row_begin;
  AttendTask task;
  task.query_stride = 3 * std::size_t{c_.hidden};
  task.out_stride = c_.hidden;
  task.rows = static_cast<std::uint32_t>(rows);
  task.heads = 1;
  task.head_dim = c_.head_dim();
  task.scale = weights_->scale(group.tower, group.scenario, layer, part.head);
  task.tail_begin = std::span(batch_->visible_begin).subspan(part.row_begin, rows);
  task.tail_end = std::span(batch_->visible_end).subspan(part.row_begin, rows);
  const std::size_t column = std::size_t{part.head} * c_.head_dim();
  task.queries = qkv_.data() + part.row_begin * task.query_stride + column;
  task.out = mixed_.data() + part.row_begin * task.out_stride + column;
  kv_.resolve(std::span(batch_->spans).subspan(group.span_begin, group.span_end - group.span_begin),
              key_rotations_, layer, part.head, w.context);
  w.tail.assign(1, kv_.rows(part.head, group.row_begin, task.tail_end.back()));
  task.context = w.context;
  task.tail = w.tail;
  task.may_round = options_.weights != WeightFormat::f32;
  vector_kernels_.attend(task, w.attend);
}

// Finishes the last layer for candidates; their final states are side by side with those of the
// other towers.
void CpuClimber::finish_towers(Team::Pass& pass) {
  const double row_operations = 2.0 * c_.hidden * (1.0 * c_.hidden + 2.0 * c_.intermediate);
  const double rows = static_cast<double>(batch_->candidates) * static_cast<double>(c_.towers.size());
  pass.run(candidate_chunks_.size(), row_operations * rows, [&](std::size_t part, std::uint32_t worker) {
    const Chunk& chunk = candidate_chunks_[part];
    Workspace& w = workspaces_[worker];
    finish_layer(chunk, c_.layers - 1, w);
    const std::size_t candidate = chunk.begin - batch_->towers[chunk.tower].candidates;
    norm(state(chunk.begin), weights_->towers[chunk.tower].final_norm,
         ends_.data() + candidate * c_.fused() + std::size_t{chunk.tower} * c_.hidden, c_.fused(), chunk.rows,
         w);
  });
}

void CpuClimber::score(Team::Pass& pass) {
  const std::size_t candidates = batch_->candidates,
                    parts = (candidates + scored_at_once - 1) / scored_at_once;
  const double fused = c_.fused(), out = fused + double(c_.experts) * c_.expert_size;
  pass.run(
      parts, 2 * static_cast<double>(candidates) * fused * out, [&](std::size_t part, std::uint32_t worker) {
        const std::size_t begin = part * scored_at_once;
        Workspace& w = workspaces_[worker];
        timed(w, &PassTimes::readout,
              [&] { score_candidates(begin, std::min<std::size_t>(scored_at_once, candidates - begin), w); });
      });
}

// Computes fusion, experts and heads of consecutive candidates.
void CpuClimber::score_candidates(std::size_t begin, std::size_t count, Workspace& w) {
  const std::size_t experts = c_.experts, size = c_.expert_size, tasks = c_.tasks.size();
  float* const ends = ends_.data() + begin * c_.fused();
  float* const fused = w.gate_up.data();
  float* const opinions = w.activated.data();              // [candidate][expert][expert_size]
  float* const gates = opinions + count * experts * size;  // [candidate][task][expert]
  float* const mixed = gates + count * experts * tasks;    // [candidate][expert_size]
  float* const inner = mixed + count * size;               // [candidate][head_size]
  weights_->fusion_gate.run(ends, fused, count);
  vector_kernels_.elementwise->sigmoid_gate(ends, c_.fused(), fused, fused, c_.fused(), count, c_.fused());
  weights_->experts.run(fused, opinions, count);
  gates_.silu(opinions, experts * size, count, experts * size);
  weights_->task_gates.run(fused, gates, count);
  for (std::size_t task = 0; task < tasks; ++task) {
    std::fill_n(mixed, count * size, 0.0f);
    for (std::size_t i = 0; i < count; ++i) {
      float* const gate = gates + (i * tasks + task) * experts;
      const float most = *std::max_element(gate, gate + experts);
      float total = 0;
      for (std::size_t x = 0; x < experts; ++x) total += gate[x] = std::exp(gate[x] - most);
      for (std::size_t x = 0; x < experts; ++x) {
        const float weight = gate[x] / total;
        const float* const opinion = opinions + (i * experts + x) * size;
        for (std::size_t k = 0; k < size; ++k) mixed[i * size + k] += weight * opinion[k];
      }
    }
    const PackedClimberTask& head = weights_->tasks[task];
    head.fc1.run(mixed, inner, count);
    gates_.silu(inner, c_.head_size, count, c_.head_size);
    for (std::size_t i = 0; i < count; ++i)
      logits_.data()[(begin + i) * tasks + task] =
          std::inner_product(head.fc2.begin(), head.fc2.end(), inner + i * c_.head_size, head.fc2_bias);
  }
}

void CpuClimber::read(std::span<Reply> replies) {
  for (const ClimberReadout& readout : batch_->readouts)
    replies[readout.request].readouts[readout.index].assign(
        1, logits_.data()[readout.candidate * c_.tasks.size() + readout.task]);
}

std::unique_ptr<Executor> make_cpu_climber(ClimberModel model, const DecoderOptions& options,
                                           const ClimberKernels& vector_kernels, std::shared_ptr<Team> team) {
  return std::make_unique<CpuClimber>(std::make_shared<const PackedClimber>(pack_climber(
                                          std::move(model), {options.weights, *vector_kernels.product})),
                                      std::move(team), options, vector_kernels);
}

std::unique_ptr<Executor> make_cpu_climber(ClimberModel model, const DecoderOptions& options) {
  return make_cpu_climber(std::move(model), options, {&elementwise(), &gates(), &attend, &product_version()},
                          std::make_shared<Team>(options.cores));
}

}  // namespace troupe::kernels
