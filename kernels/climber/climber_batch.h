#pragma once
// Plans one pass of Climber before any number is computed: which tokens are rows of which tower,
// which rows attend together, and where the keys and values that they see are. Rows are in the
// order of towers (sub-models that each read a part of the history). A tower's rows are its
// histories and then the candidates of all requests, one row each. So the rows that a readout needs
// are contiguous.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/climber/climber.h"
#include "kernels/decoder/decoder_batch.h"

namespace troupe::kernels {

struct ClimberRows {
  std::uint32_t begin = 0, candidates = 0, end = 0;  // histories up to `candidates`, then candidates
};

// Rows of one tower and one scenario (a class of requests with its own temperatures) that see the
// same histories. A history's row sees the group's rows up to itself; a candidate sees only itself.
struct ClimberGroup {
  std::uint32_t tower = 0, scenario = 0;
  std::uint32_t row_begin = 0, row_end = 0;
  std::uint32_t span_begin = 0, span_end = 0;  // into spans
  bool candidates = false;
};

struct ClimberReadout {
  std::uint32_t request = 0, index = 0;   // the plan's readouts[index]
  std::uint32_t candidate = 0, task = 0;  // task: index of an output, such as click or like
};

// Plan of one pass. Its spans point into the requests, which must outlive the pass.
struct ClimberBatch {
  std::vector<Token> tokens;                              // per row
  std::vector<std::uint32_t> actions, positions;          // per row
  std::vector<std::uint32_t> visible_begin, visible_end;  // per row: rows of its group that it sees
  std::vector<ClimberRows> towers;
  std::vector<ClimberGroup> groups;
  std::vector<ContextSpan> spans;
  std::vector<KeptSegment> kept;  // segments whose keys and values are stored in pages
  // Pages given for candidates. No computation reads them, since a candidate's keys and values
  // serve no other row. But they are moved and checksummed, so the executor clears them.
  std::vector<std::byte*> unread;
  std::uint32_t candidates = 0;
  std::vector<ClimberReadout> readouts;

  std::uint32_t rows() const { return static_cast<std::uint32_t>(tokens.size()); }
};

class ClimberPlanner {
 public:
  ClimberPlanner(const ClimberConfig& config, const KvLayout& layout) : config_(config), layout_(layout) {}

  // Plans a pass. CHECKs three things: every plan is valid for segment plans and for Climber, each
  // segment has as many pages as the layout needs, and no candidate is read from a cache. The batch
  // is valid until the next call.
  const ClimberBatch& plan(std::span<const Request> requests);

 private:
  void check(const Request& request) const;
  void add_row(Token token, std::int64_t action, std::uint32_t position, std::uint32_t from,
               std::uint32_t to);
  void add_histories(std::span<const Request> requests, std::uint32_t tower);
  void add_candidates(const Request& request, std::size_t first_segment, std::uint32_t tower);
  std::uint32_t add_context(const Request& request, std::size_t first_segment, const VisibleSegments& sees,
                            std::uint32_t tower);
  void add_readouts(std::span<const Request> requests);
  void note_unread_pages(const Request& request);

  const ClimberConfig& config_;
  const KvLayout layout_;
  ClimberBatch batch_;
  std::vector<std::uint32_t> place_;  // [segment of all requests]: first row, or number of the candidate
};

}  // namespace troupe::kernels
