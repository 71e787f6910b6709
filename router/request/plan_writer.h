#pragma once
// Writes the plan of a prompt down, segment by segment. An empty segment leaves no trace, since a plan has
// none.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "router/request/plans.h"

namespace troupe::router {

class PlanWriter {
 public:
  PlanWriter(std::string_view name, const RankPrompt& prompt) : prompt_(prompt) { made_.name = name; }

  // What all plans begin with.
  void system();
  // A segment that sees all before it but blocks that have their places later, or only those.
  void add(SegmentKind kind, const Tokens& tokens, std::int32_t start);
  void add(SegmentKind kind, const Tokens& tokens, std::int32_t start, Sees sees);
  // The user's history, behind the system prompt, where its block serves all plans that have it there.
  void add_user(std::int32_t start);
  // The same in the form's parts, each of which sees those before it.
  void add_user_in_parts(std::int32_t start);
  // The last segment may be reused. Without names there is no such thing.
  template <class Name>
  void name_last(bool written, const Name& name, std::string owner);
  // An item that is computed alone, where it sees `context`, from `start` on, and stands `shift` positions
  // further on; its first tokens are computed again, as far as the prompt is to be repaired. `name` gives its
  // block's name.
  template <class Name>
  void add_item(const ItemView& item, std::int32_t start, std::int32_t shift, const Sees& context,
                const Name& name);
  // Blocks of which the prompt has the places: between the two calls, and nothing else. They see the system
  // prompt and begin behind it, or see nothing and begin at 0.
  void begin_blocks() { hidden_.begin = count(); }
  void add_block(SegmentKind kind, const Tokens& tokens, std::string owner);
  // One that is made of prototypes: nobody keeps it.
  void add_block_of_prototypes(const Tokens& tokens) { add(SegmentKind::user, tokens, 0, {}); }
  void end_blocks() { hidden_.end = count(); }
  // The next block's place.
  void add_place(std::int32_t start, bool of_prototypes = false);
  // Which tokens of the places are computed, as the prompt asks; before the plan is finished.
  void repair();
  // Where a candidate's score is read, behind its tokens; nothing where there is a discriminant.
  void add_score(std::int32_t start);
  // What plans of rankers end with.
  Candidate finish(std::int32_t start) &&;
  // Those of generators: the search begins behind the last token so far.
  Candidate finish(Search search) &&;

  std::uint32_t count() const { return static_cast<std::uint32_t>(made_.plan.segments.size()); }

 private:
  std::size_t repaired(const ItemView& item) const;
  void add_repair(const ItemView& item, std::size_t tokens, std::int32_t start);

  Sees before() const;

  const RankPrompt& prompt_;
  Candidate made_;
  Sees::Range hidden_;  // blocks that have their places later
};

template <class Name>
void PlanWriter::name_last(bool written, const Name& name, std::string owner) {
  if (written && prompt_.names) made_.blocks.back() = {name(*prompt_.names), std::move(owner), 0};
}

template <class Name>
void PlanWriter::add_item(const ItemView& item, std::int32_t start, std::int32_t shift, const Sees& context,
                          const Name& name) {
  const std::size_t again = repaired(item);
  if (again < item.tokens.size()) {
    add(SegmentKind::item, prompt_.tokens_of(item), start, context);
    made_.plan.segments.back().shift = shift;
    name_last(true, name, std::string(item.id));
  }
  if (again > 0) add_repair(item, again, start + shift);
}

}  // namespace troupe::router
