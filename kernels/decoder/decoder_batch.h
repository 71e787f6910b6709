#pragma once
// Plans one forward pass before any number is computed: which tokens are rows, which rows are
// attended to together, and where the keys and values that they see will be. The plan is plain data
// made from plain data, so it is tested without a model.
//
// A group is a run of rows of one request with one context and one tail. The context is the keys
// that all its rows see in full; the tail is the group's own keys, of which each row sees one
// interval. Segments with the same `sees` share a group. A segment also continues a group if,
// beyond the group's context, it sees exactly the group's last segments, each without a shift and
// in full: a tail has its keys as they were made, all of them. So a plain causal prompt is one
// group, and so are a hundred candidates with the instruction behind them. Neighbours that see the
// same do not continue a group, since only one of them could: candidates stay together.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/decoder/decoder.h"

namespace troupe::kernels {

// Keys and values that a group sees: tokens [slot, slot + tokens) of a cached page, or rows of this
// pass.
struct ContextSpan {
  const std::byte* page = nullptr;  // null: rows [row, row + tokens)
  std::uint32_t row = 0;
  std::uint32_t tokens = 0;
  std::uint32_t slot = 0;
  std::uint32_t rotation = 0;  // keys are rotated by rotation_distances[rotation - 1]; 0: not rotated
  // For tokens of a page; those of rows are in the batch.
  std::uint32_t position = 0;              // of the first token, where it was computed
  const std::int64_t* features = nullptr;  // [token][feature]
};

struct RowGroup {
  std::uint32_t row_begin = 0, row_end = 0;
  std::uint32_t span_begin = 0, span_end = 0;  // into spans
  std::uint32_t measured_from =
      UINT32_MAX;  // rows from here on contribute to the attention that a repair measures
};

// Rows that are still computed where others have ended: in the last layer those with a readout, and
// behind a repair's exact layers those that do not take their block's keys and values.
struct RowSet {
  struct Range {  // into rows
    std::uint32_t begin = 0, end = 0;
  };
  std::vector<std::uint32_t> rows;        // ascending, unique
  std::vector<std::uint32_t> begin, end;  // [row of the set]: its visible interval
  std::vector<Range> groups;              // [group of the batch]

  // Returns the index in `rows` of a row of the set.
  std::uint32_t index_of(std::uint32_t row) const;
};

// A reused span of a repair: its rows, and where its block's keys and values are, with the rotation
// to the span's positions.
struct RepairedSpan {
  std::uint32_t row = 0, tokens = 0;
  std::uint32_t span_begin = 0, span_end = 0;  // into spans
  std::uint32_t budget = 0;
};
struct BatchRepair {
  const Repair* repair = nullptr;
  std::uint32_t request = 0;
  std::uint32_t reused_begin = 0, reused_end = 0;  // into reused_spans
};

// A computed segment whose keys and values are kept in pages.
struct KeptSegment {
  std::uint32_t row = 0, tokens = 0;
  std::span<std::byte* const> pages;
};

struct BatchReadout {
  std::uint32_t request = 0, index = 0;  // the plan's readouts[index]
  std::uint32_t read_row = 0;            // index into read.rows
  std::span<const Token> vocabulary_rows;
  Readout::What what = Readout::What::rows;
  std::uint32_t head = 0;
};

// One level of a request's beam search (kernels/search): each row is the newest token of a path.
// All rows see the search's segment and what that segment sees; each row sees the tokens of its own
// path.
struct BeamRows {
  const Request* request = nullptr;  // its plan has the search; all that the paths see is cached
  std::span<const Token> tokens;     // one per row
  std::uint32_t position = 0;
  std::uint32_t seen = 0;  // tokens of the search's segment that the rows see, from its first
  std::uint32_t path = 0;  // tokens of its own path that a row sees, itself included
  // Not 0: the tail is a tree of so many tokens. Each row's interval is then the whole tail, and
  // the engine masks it.
  std::uint32_t tree = 0;
};

// Plan of one pass. Its spans point into the requests, which must outlive the pass.
struct DecoderBatch {
  std::vector<Token> tokens;                              // per row
  std::vector<std::uint32_t> positions;                   // per row
  std::vector<std::int64_t> features;                     // [row][feature]
  std::vector<std::uint32_t> visible_begin, visible_end;  // per row: the interval of its group's tail
  std::vector<RowGroup> groups;                           // in row order; every row is in one
  std::vector<ContextSpan> spans;
  std::vector<std::int32_t> rotation_distances;  // distances by which keys of spans are rotated, unique
  std::vector<KeptSegment> kept;
  RowSet read;  // rows with a readout
  std::vector<BatchReadout> readouts;
  std::vector<BatchRepair> repairs;
  std::vector<RepairedSpan> reused_spans;  // spans of all repairs, repair after repair

  std::uint32_t rows() const { return static_cast<std::uint32_t>(tokens.size()); }
};

// Fills in the intervals and groups of a set whose rows are given.
void assign_groups(const DecoderBatch& batch, RowSet& set);

// Returns the end of the readouts from `first` on that ask for logits of the same rows; a readout of a state
// or of a task head is a run of one.
std::size_t end_of_alike(std::span<const BatchReadout> readouts, std::size_t first);

// Makes the plans of passes; memory is reused from pass to pass.
class BatchPlanner {
 public:
  BatchPlanner(const DecoderConfig& config, const KvLayout& layout);
  // For other architectures whose rows are tokens with keys and values. Tokens at positions below
  // `sees_ahead` see all of their segment, also the tokens after them.
  BatchPlanner(const PlanLimits& limits, const KvLayout& layout, std::uint32_t sees_ahead = 0);

  // Plans a pass over requests. CHECKs that plans are sound and that pages fit them. The result is
  // valid until the next call.
  const DecoderBatch& plan(std::span<const Request> requests);
  // Plans a pass over levels of beam searches: group i is levels[i], and every row is read. A row's
  // interval of the tail is the keys of its path, the row itself last; the engine keeps them.
  const DecoderBatch& plan_beams(std::span<const BeamRows> levels);

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  // A segment of the current request.
  struct PlannedSegment {
    std::uint32_t group = 0;        // index into open_
    std::uint32_t previous = none;  // the segment before it in its group
    std::uint32_t run = 0;          // first of the consecutive segments up to it that are all in its group
    std::uint32_t first_seen = 0;   // earliest segment of its group that it sees; itself if none
    std::uint32_t row = 0;
    std::uint32_t rotation = 0;  // as ContextSpan::rotation
    bool altered = false;        // segments that see it may see it shifted or in part
  };
  // Tokens of a segment that a group leaves out if it sees the replacing segment too.
  struct OmittedTokens {
    std::uint32_t segment = 0, offset = 0, tokens = 0, by = 0;
    auto operator<=>(const OmittedTokens&) const = default;
  };
  // One group of the current request.
  struct OpenGroup {
    std::span<const VisibleSegments::Range> context;  // segments that all its rows see
    std::uint32_t first = 0, last = none;             // members
    std::uint32_t rows = 0, next_row = 0;
    std::uint32_t index = 0;  // into batch_.groups
    std::uint32_t cut = none,
                  cut_tokens = 0;  // context segment of which only the first `cut_tokens` tokens are seen
  };

  void clear();
  void check(const Request& request) const;
  void check_repair(const Request& request) const;
  void note_altered(const Plan& plan);
  std::uint32_t rotation_of(std::int32_t shift);
  void form_groups(const Request& request);
  bool join(const Plan& plan, std::uint32_t segment, std::uint32_t group);
  bool sees_altered(std::uint32_t group, std::uint32_t first_seen) const;
  void place_rows(const Request& request);
  void fill_rows(const Segment& segment, const PlannedSegment& planned);
  void add_spans(const Request& request, const OpenGroup& group);
  void add_segment(const Request& request, std::uint32_t segment, const OpenGroup& group);
  void add_tokens(const Request& request, std::uint32_t segment, std::uint32_t begin, std::uint32_t end,
                  std::size_t first_span, std::uint32_t rotation);
  void add_own_rows(const ContextSpan& rows, std::size_t first_span);
  void add_beams(const BeamRows& level);
  void add_repair(const Request& request, std::uint32_t index);
  void add_readouts(const Request& request, std::uint32_t index);
  void number_read_rows();

  PlanLimits limits_;
  KvLayout layout_;
  std::uint32_t sees_ahead_ = 0;
  DecoderBatch batch_;
  std::vector<PlannedSegment> planned_;  // [segment of the current request]
  std::vector<OpenGroup> open_;          // groups of the current request
  std::vector<OmittedTokens> omitted_;   // of the current request, ascending
  std::vector<Token> all_rows_;          // all rows of the vocabulary; empty until a readout needs them
};

}  // namespace troupe::kernels
