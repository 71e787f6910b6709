#pragma once
// The part that the executors of HSTU and SASRec on the CPU share. A pass runs the tokens of all requests as
// rows of one matrix, from the item embedding to readouts of states and items. A family has the layers; here
// are passes and their memory, the division of rows and attention among idle cores, pages, and readouts.
//
// Between two attentions rows are independent, so a layer has two regions of parallel work: chunks of rows,
// and parts of attention. In the last layer only rows with a readout go on after keys and values.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/engine/decoder_attention.h"
#include "kernels/cpu/engine/decoder_buffer.h"
#include "kernels/cpu/engine/decoder_kv.h"
#include "kernels/cpu/engine/decoder_rope.h"
#include "kernels/cpu/engine/decoder_workspace.h"
#include "kernels/cpu/engine/item_scores.h"
#include "kernels/cpu/engine/item_search.h"
#include "kernels/cpu/engine/joined_groups.h"
#include "kernels/cpu/engine/pass_memory.h"
#include "kernels/cpu/engine/row_chunks.h"
#include "kernels/cpu/engine/team.h"
#include "kernels/decoder/decoder_batch.h"
#include "kernels/operations/gate.h"
#include "kernels/operations/readout.h"

namespace troupe::kernels {

// Sizes and limits of a model. The layout has as many heads of keys and values as of queries.
struct ItemModel {
  KvLayout layout;
  PageLayout pages;
  RowWidths widths;
  std::size_t first_query = 0;      // in a row of the projections
  std::size_t chunk_width = 0;      // floats of a row inside a chunk
  std::size_t key_value_width = 0;  // floats of a row's key and value
  double row_operations = 0;        // of the products of a layer
  RowMemory memory;
  std::uint32_t token_rows = 1;  // rows of a token of a plan
  PlanLimits limits;             // of the rows
  std::uint32_t sees_ahead = 0;  // as in BatchPlanner
  bool joins_groups = false;     // attention can limit what a row sees of a context
  ItemScores scores;
};

struct ItemModelKernels {
  const Gates* gates;
  ReadoutRows* readout;
  ItemKernels search;
};

// Teams, and the right to a large pass, of all executors over the same weights.
struct SharedTeams {
  std::shared_ptr<const Teams> teams;
  std::shared_ptr<std::mutex> large = std::make_shared<std::mutex>();  // held by one large pass
};

class ItemExecutor : public Executor {
 public:
  const PageLayout& layout() const final { return model_.pages; }
  using Executor::run;
  void run(std::span<const Request> requests, std::vector<Reply>& replies) final;
  void measure(PassTimes* times) final { times_ = times; }

 protected:
  // Working memory of one thread of a pass.
  struct ItemWorkspace {
    FloatBuffer chunk;  // [rows of a chunk] × chunk_width
    AttendScratch attend;
    std::vector<KvRun> context, tail;
    PassTimes times;
  };

  ItemExecutor(std::shared_ptr<const PackedItems> items, ItemModel model, SharedTeams shared,
               std::uint32_t executor, const DecoderOptions& options, const ItemModelKernels& kernels);

  // Sets `batch_` to the rows of a pass. Returns "" or the limit that they exceed.
  virtual std::string plan_rows(std::span<const Request> requests) = 0;
  // Computes the states of the rows with a readout.
  virtual void run_layers(Team::Pass& pass) = 0;
  // Sets `out` to a task's logit; only for models with a task head.
  virtual void read_head(const BatchReadout&, std::vector<float>& /*out*/) {}
  // Frees a large pass's memory, so that the next large pass may be any executor's.
  virtual void free_memory();

  // Calls work(rows, workspace) for all rows, chunk by chunk, shared among idle cores.
  template <class Work>
  void for_rows(Team::Pass& pass, Work&& work) {
    run_chunks(pass, rows_, chunk_rows_, model_.row_operations,
               [&](Rows rows, std::uint32_t worker) { work(rows, workspaces_[worker]); });
  }
  // Calls attend(part, worker) for all parts of attention. Keys and values that are kept go to their pages
  // meanwhile: both only read this layer's.
  template <class Attend>
  void run_attention(Team::Pass& pass, std::uint32_t layer, Attend&& attend);
  // Sets rows, head, outputs, keys and values of a part, and the ends of the intervals that its rows see.
  template <class Task>
  void set_part(Task& task, const AttentionPart& part, std::uint32_t layer, ItemWorkspace& w);
  // Moves the rows with a readout to the front; the others end here. Beside their states they keep the first
  // `projections` numbers of their projections.
  void keep_read_rows(std::size_t projections);

  bool is_last(std::uint32_t layer) const { return layer + 1 == model_.layout.layers; }
  float* state(std::size_t row) const { return state_.data() + row * model_.widths.state; }
  double* timed(ItemWorkspace& w, double PassTimes::*part) const {
    return times_ == nullptr ? nullptr : &(w.times.*part);
  }

  const ItemModel model_;
  const DecoderOptions options_;
  const SharedTeams shared_;
  BatchPlanner planner_;
  LayerKv kv_;

  // State of the current pass.
  const DecoderBatch* batch_ = nullptr;
  std::size_t rows_ = 0;                     // rows still computed: all, then those with a readout
  FloatBuffer state_, projections_, mixed_;  // [rows] × widths
  std::vector<ItemWorkspace> workspaces_;    // [worker]

 private:
  std::string run_pass(std::span<const Request> requests, std::span<Reply> replies);
  std::string compute(std::span<const Request> requests, std::span<Reply> replies);
  void start(std::uint32_t workers);
  void gather_items();
  void read(std::span<const Request> requests, std::span<Reply> replies);
  std::span<const Token> take_gathered(std::size_t first);
  void read_items(std::span<const BatchReadout> readouts, const Matrix& items, std::span<const Token> rows,
                  std::span<Reply> replies);
  void find_items(std::span<Reply> replies);

  const std::shared_ptr<const PackedItems> items_;
  Team& team_;
  const ItemModelKernels item_kernels_;
  const RopeTable no_turns_;
  ItemSearch search_;
  PassTimes* times_ = nullptr;

  // State of the current pass.
  std::size_t chunk_rows_ = 0;
  AttentionParts all_rows_, read_rows_;
  JoinedRows joined_;  // of all_rows_
  // For a table that is apart: rows of `state_` behind those of the pass, one for each item that is
  // read out; and these items as readouts name them.
  std::vector<Token> gathered_;
  std::vector<std::size_t> gathered_at_;  // [readout]: row of its first item
  Matrix read_items_;
  std::vector<Token> read_item_rows_;
  std::vector<float> normed_states_;  // [readout] × columns of an item
  std::vector<const float*> readout_states_;
  std::vector<float*> readout_out_;
};

template <class Attend>
void ItemExecutor::run_attention(Team::Pass& pass, std::uint32_t layer, Attend&& attend) {
  const AttentionParts& attention = is_last(layer) ? read_rows_ : all_rows_;
  const std::size_t parts = attention.parts.size();
  const auto width = static_cast<double>(model_.key_value_width);
  double operations = 2 * attention.pairs * width;
  for (const KeptSegment& segment : batch_->kept) operations += copies_cost * segment.tokens * width;
  pass.run(parts + batch_->kept.size(), operations, [&](std::size_t part, std::uint32_t worker) {
    ItemWorkspace& w = workspaces_[worker];
    PartTimer timer(timed(w, part < parts ? &PassTimes::attention : &PassTimes::keys_values));
    if (part < parts)
      attend(attention.parts[part], worker);
    else
      kv_.keep(batch_->kept[part - parts], layer);
  });
}

template <class Task>
void ItemExecutor::set_part(Task& task, const AttentionPart& part, std::uint32_t layer, ItemWorkspace& w) {
  const RowGroup& group = batch_->groups[part.group];
  const KvLayout& layout = model_.layout;
  const std::size_t begin = part.row_begin;
  task.rows = part.row_end - part.row_begin;
  task.head_dim = layout.head_dim;
  task.query_stride = model_.widths.qkv;
  task.out_stride = model_.widths.mixed;
  task.queries = projections_.data() + begin * task.query_stride + model_.first_query +
                 std::size_t{part.head} * layout.head_dim;
  task.out = mixed_.data() + begin * task.out_stride + std::size_t{part.head} * layout.numbers_of_value();
  task.tail_end =
      std::span(is_last(layer) ? batch_->read.end : batch_->visible_end).subspan(begin, task.rows);
  kv_.resolve(std::span(batch_->spans).subspan(group.span_begin, group.span_end - group.span_begin),
              no_turns_, layer, part.head, w.context);
  task.context = w.context;
  if constexpr (requires { task.context_end; })
    if (!is_last(layer) && !joined_.context_end.empty()) {
      task.context_end = std::span(joined_.context_end).subspan(begin, task.rows);
      task.tail_end = std::span(joined_.tail_end).subspan(begin, task.rows);
    }
  w.tail.assign(1, kv_.rows(part.head, group.row_begin, *std::ranges::max_element(task.tail_end)));
  task.tail = w.tail;
  task.may_round = options_.weights != WeightFormat::f32;
}

}  // namespace troupe::kernels
