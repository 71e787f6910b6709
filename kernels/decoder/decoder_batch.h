#pragma once
// Plans one forward pass before any number is computed: which tokens are rows, which rows are attended to
// together, and where the keys and values that they see will lie. Plain data from plain data, so it is tested
// without a model.
//
// A group is a run of rows of one request with one context, the keys that all of them see in full, and one
// tail: the group's own keys, of which each row sees one interval. Segments with the same `sees` share a
// group; a segment that sees, beyond the group's context, exactly the last segments of the group continues
// it, unless it sees one of them moved or in part: a tail has its keys as they were made, all of them.
// So a plain causal prompt is one group, and so are a hundred candidates with the instruction behind
// them.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/decoder/decoder.h"

namespace troupe::kernels {

// Keys and values that a group sees: tokens [slot, slot + tokens) of a cached page, or rows of this pass.
struct ContextSpan {
  const std::byte* page = nullptr;  // null: rows [row, row + tokens)
  std::uint32_t row = 0;
  std::uint32_t tokens = 0;
  std::uint32_t slot = 0;
  std::uint32_t turn = 0;  // its keys turn by turns[turn - 1] positions; 0: they do not
  // Of a page's tokens; what rows have is the batch's.
  std::uint32_t position = 0;              // of the first token, where it was computed
  const std::int64_t* features = nullptr;  // [token][feature]
};

struct RowGroup {
  std::uint32_t row_begin = 0, row_end = 0;
  std::uint32_t span_begin = 0, span_end = 0;  // into spans
  std::uint32_t paying = UINT32_MAX;           // rows from here on pay the attention that a repair asks for
};

// Rows that go on where others have ended: in the last layer those with a readout, and where a plan has a
// repair those that are not left to their blocks.
struct RowSet {
  struct Range {  // into rows
    std::uint32_t begin = 0, end = 0;
  };
  std::vector<std::uint32_t> rows;        // ascending, each once
  std::vector<std::uint32_t> begin, end;  // per row: its visible interval
  std::vector<Range> groups;              // per group of the batch

  // Of a row that is one of them.
  std::uint32_t index_of(std::uint32_t row) const;
};

// Of a repair: a segment of the prompt, and where its block's keys and values are, turning to it.
struct RepairedPlace {
  std::uint32_t row = 0, tokens = 0;
  std::uint32_t span_begin = 0, span_end = 0;  // into spans
  std::uint32_t budget = 0;
};
struct BatchRepair {
  const Repair* repair = nullptr;
  std::uint32_t request = 0;
  std::uint32_t place_begin = 0, place_end = 0;  // into places
};

// A computed segment whose keys and values stay in pages.
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

// One level of a request's beam search (kernels/search): each row is the newest token of a path. All see what
// the search's segment sees, the segment, and each the tokens of its own path.
struct BeamRows {
  const Request* request = nullptr;  // whose plan has the search; what its paths see is cached
  std::span<const Token> tokens;     // one per row
  std::uint32_t position = 0;
  std::uint32_t seen = 0;  // tokens of the search's segment that they see, from its first
  std::uint32_t path = 0;  // tokens of its own path that a row sees, itself included
  // Not 0: the tail is a tree of so many tokens, each row's interval is all of it, and the engine masks it.
  std::uint32_t tree = 0;
};

// Spans point into the requests, which must outlive the pass.
struct DecoderBatch {
  std::vector<Token> tokens;                              // per row
  std::vector<std::uint32_t> positions;                   // per row
  std::vector<std::int64_t> features;                     // [row][feature]
  std::vector<std::uint32_t> visible_begin, visible_end;  // per row: the interval of its group's tail
  std::vector<RowGroup> groups;                           // in row order; every row is in one
  std::vector<ContextSpan> spans;
  std::vector<std::int32_t> turns;  // by which keys of spans turn, each once
  std::vector<KeptSegment> kept;
  RowSet read;  // rows with a readout
  std::vector<BatchReadout> readouts;
  std::vector<BatchRepair> repairs;
  std::vector<RepairedPlace> places;  // of one repair after the other

  std::uint32_t rows() const { return static_cast<std::uint32_t>(tokens.size()); }
};

// Fills the set in, whose rows are given.
void place_in_groups(const DecoderBatch& batch, RowSet& set);

// Reuses its memory from pass to pass.
class BatchPlanner {
 public:
  BatchPlanner(const DecoderConfig& config, const KvLayout& layout);
  // Of another family whose rows are tokens with keys and values. Tokens at positions below `sees_ahead` see
  // all of their segment, also what follows them.
  BatchPlanner(const PlanLimits& limits, const KvLayout& layout, std::uint32_t sees_ahead = 0);

  // Unsound plans and pages that do not fit them are bugs of the caller. The result holds until the next
  // call.
  const DecoderBatch& plan(std::span<const Request> requests);
  // A pass over levels of beam searches: group i is levels[i], and every row is read. A row's interval of the
  // tail is the keys of its path, which the engine keeps, itself last.
  const DecoderBatch& plan_beams(std::span<const BeamRows> levels);

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  // One segment of the request at hand.
  struct Placed {
    std::uint32_t group = 0;        // index into open_
    std::uint32_t previous = none;  // the segment before it in its group
    std::uint32_t run = 0;          // the earliest segment from which on all up to it are in its group
    std::uint32_t first_seen = 0;   // the earliest segment of its group that it sees; itself if none
    std::uint32_t row = 0;
    std::uint32_t turn = 0;  // as ContextSpan::turn
    bool bends = false;      // those that see it may see it moved or in part
  };
  // Tokens of a segment that are left out where the segment in their place is seen, too.
  struct LeftOut {
    std::uint32_t segment = 0, offset = 0, tokens = 0, by = 0;
    auto operator<=>(const LeftOut&) const = default;
  };
  // One group of the request at hand.
  struct OpenGroup {
    std::span<const Sees::Range> context;  // segments that all its rows see
    std::uint32_t first = 0, last = none;  // members
    std::uint32_t rows = 0, next_row = 0;
    std::uint32_t index = 0;  // into batch_.groups
    std::uint32_t cut = none,
                  cut_tokens = 0;  // a segment of the context of which only the first tokens are seen
  };

  void clear();
  void check(const Request& request) const;
  void check_repair(const Request& request) const;
  void note_bends(const Plan& plan);
  std::uint32_t turn_of(std::int32_t shift);
  void form_groups(const Request& request);
  bool join(const Plan& plan, std::uint32_t segment, std::uint32_t group);
  bool sees_bent(std::uint32_t group, std::uint32_t first_seen) const;
  void place_rows(const Request& request);
  void fill_rows(const Segment& segment, const Placed& placed);
  void add_spans(const Request& request, const OpenGroup& group);
  void add_segment(const Request& request, std::uint32_t segment, const OpenGroup& group);
  void add_tokens(const Request& request, std::uint32_t segment, std::uint32_t begin, std::uint32_t end,
                  std::size_t first_span, std::uint32_t turn);
  void add_own_rows(const ContextSpan& rows, std::size_t first_span);
  void add_beams(const BeamRows& level);
  void note_repair(const Request& request, std::uint32_t index);
  void note_readouts(const Request& request, std::uint32_t index);
  void number_read_rows();

  PlanLimits limits_;
  KvLayout layout_;
  std::uint32_t sees_ahead_ = 0;
  DecoderBatch batch_;
  std::vector<Placed> placed_;     // per segment of the request at hand
  std::vector<OpenGroup> open_;    // groups of the request at hand
  std::vector<LeftOut> left_out_;  // of the request at hand, ascending
  std::vector<Token> all_rows_;    // of the vocabulary, once they were asked for
};

}  // namespace troupe::kernels
