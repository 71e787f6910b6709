#pragma once
// Builds the plan of a prompt segment by segment. Empty segments are skipped, because a plan has
// none.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "router/request/plans.h"

namespace troupe::router {

class PlanWriter {
 public:
  PlanWriter(std::string_view name, const RankPrompt& prompt) : prompt_(prompt) {
    made_.name = name;
    reserve(prompt.items.size() + 4);  // system prompt, history, instruction, discriminant
  }

  // Makes room for this many segments.
  void reserve(std::size_t segments) {
    made_.plan.segments.reserve(segments);
    made_.blocks.reserve(segments);
  }

  // Adds the system prompt, with which all plans begin.
  void system();
  // Adds a segment that sees everything before it, except blocks for reused spans; or only `sees`.
  void add(SegmentKind kind, Tokens tokens, std::int32_t start);
  void add(SegmentKind kind, Tokens tokens, std::int32_t start, VisibleSegments sees);
  // Adds the user's history after the system prompt. Its block serves all plans that have it there.
  void add_user(std::int32_t start);
  // Adds the history in parts of the form's length; each part sees those before it.
  void add_user_in_parts(std::int32_t start);
  // Makes the last segment reusable under a name. Does nothing without names.
  template <class Name>
  void name_last(bool written, const Name& name, std::string owner);
  // Adds an item's prefix block (item_block.h): it sees the system prompt alone and begins behind it.
  void add_prefix_block(const ItemView& item);
  // Add the blocks that fill reused spans: only calls that add blocks come between these two. Blocks of
  // add_block see the system prompt and begin after it, or see nothing and begin at 0.
  void begin_blocks() { hidden_.begin = count(); }
  void add_block(SegmentKind kind, const Tokens& tokens, std::string owner);
  // Adds a block that is made of prototypes; it is never kept.
  void add_block_of_prototypes(const Tokens& tokens) { add(SegmentKind::user, tokens, 0, {}); }
  void end_blocks() { hidden_.end = count(); }
  // Records that this item is computed in its place.
  void note_in_place(std::size_t item) { made_.in_place.push_back(static_cast<std::uint32_t>(item)); }
  // Adds the reused span that the next block fills.
  void add_reused_span(std::int32_t start, bool of_prototypes = false);
  // Chooses the tokens of the spans that are computed, as the prompt asks. Called before finish.
  void repair();
  // Add the readout of a candidate's score behind all before it, or behind what it `sees`; do nothing if
  // the form has a discriminant.
  void add_score(std::int32_t start) { add_score(start, before()); }
  void add_score(std::int32_t start, VisibleSegments sees);
  // Adds a candidate, with what follows it, whose score is read at the last of these tokens.
  void add_read_behind(Tokens tokens, std::int32_t start, const VisibleSegments& sees,
                       std::vector<Token> rows);
  // Ends a plan that has its readouts.
  Candidate finish() && { return std::move(made_); }
  // Adds the end of a ranker's plan: instruction and discriminant.
  Candidate finish(std::int32_t start) &&;
  // Ends a generator's plan: the search begins after the last token.
  Candidate finish(Search search) &&;

  std::uint32_t count() const { return static_cast<std::uint32_t>(made_.plan.segments.size()); }

 private:
  VisibleSegments before() const;

  const RankPrompt& prompt_;
  Candidate made_;
  VisibleSegments::Range hidden_;  // blocks that fill reused spans later
};

template <class Name>
void PlanWriter::name_last(bool written, const Name& name, std::string owner) {
  if (written && prompt_.names) made_.blocks.back() = {name(*prompt_.names), std::move(owner), 0};
}

}  // namespace troupe::router
