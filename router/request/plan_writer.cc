// Appends segments (system prompt, history, items, instruction) to a plan, each with its position,
// what it sees, and its block. The files plan_*.cc use it to build the plans of ranking requests.
#include "router/request/plan_writer.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "router/request/item_block.h"
#include "runtime/actor/user_home.h"

namespace troupe::router {

void PlanWriter::system() {
  add(SegmentKind::system, prompt_.form.system, 0, {});
  name_last(
      count() > 0, [](const BlockNames& names) { return names.system(); }, "");
}

void PlanWriter::add(SegmentKind kind, Tokens tokens, std::int32_t start) {
  add(kind, std::move(tokens), start, before());
}

VisibleSegments PlanWriter::before() const {
  VisibleSegments sees;
  sees.add({0, hidden_.begin});
  sees.add({hidden_.end, count()});
  return sees;
}

void PlanWriter::add_prefix_block(const ItemView& item) {
  const ItemBlockPlace place = item_block_place(ItemBlockKind::prefix, prompt_.form);
  const Tokens tokens = prompt_.marked_tokens_of(item);
  add(SegmentKind::item, tokens, place.start,
      VisibleSegments::all_before(prompt_.form.system.empty() ? 0 : 1));
  name_last(
      true,
      [&](const BlockNames& names) {
        if (prompt_.form.item.empty()) return names.item(item);  // the catalog has this name
        return item_block_name(ItemBlockKind::prefix, prompt_.form, names, {tokens.data(), tokens.size()});
      },
      std::string(item.id));
}

void PlanWriter::add_block(SegmentKind kind, const Tokens& tokens, std::string owner) {
  const ItemBlockPlace place = item_block_place(ItemBlockKind::movable, prompt_.form);
  add(kind, tokens, place.start, VisibleSegments::all_before(place.sees_system ? hidden_.begin : 0));
  name_last(
      true,
      [&](const BlockNames& names) {
        if (kind == SegmentKind::user) return names.event(prompt_.tenant, tokens, place.sees_system);
        return item_block_name(ItemBlockKind::movable, prompt_.form, names, {tokens.data(), tokens.size()});
      },
      std::move(owner));
}

void PlanWriter::add_reused_span(std::int32_t start, bool of_prototypes) {
  auto& reused_spans = made_.plan.repair.reused_spans;
  const auto block = hidden_.begin + static_cast<std::uint32_t>(reused_spans.size());
  TROUPE_CHECK(block < hidden_.end, "a reused span has a block");
  const SegmentKind kind = made_.plan.segments[block].kind;
  Tokens tokens = made_.plan.segments[block].tokens;
  reused_spans.push_back({count(), block, 0, of_prototypes});
  if (of_prototypes) made_.plan.repair.prototypes = prompt_.form.prototype_set->checksum();
  add(kind, std::move(tokens), start);
}

void PlanWriter::repair() {
  const PromptForm& form = prompt_.form;
  const std::size_t prompt = prompt_tokens(made_.plan) + form.instruction.size() + form.discriminant.size();
  write_repair(made_.plan, prompt_.repair,
               static_cast<std::size_t>(prompt_.approximate_max * static_cast<double>(prompt)));
  made_.approximate = kept_tokens(made_.plan);
}

void PlanWriter::add_score(std::int32_t start, VisibleSegments sees) {
  const PromptForm& form = prompt_.form;
  if (!form.scores_each()) return;
  add(SegmentKind::discriminant, form.score, start, std::move(sees));
  made_.plan.readouts.push_back({.segment = count() - 1,
                                 .offset = static_cast<std::uint32_t>(form.score.size() - 1),
                                 .rows = {form.yes, form.no}});
}

void PlanWriter::add_read_behind(Tokens tokens, std::int32_t start, const VisibleSegments& sees,
                                 std::vector<Token> rows) {
  const auto last = static_cast<std::uint32_t>(tokens.size() - 1);
  add(SegmentKind::item, std::move(tokens), start, sees);
  made_.plan.readouts.push_back({.segment = count() - 1, .offset = last, .rows = std::move(rows)});
}

void PlanWriter::add(SegmentKind kind, Tokens tokens, std::int32_t start, VisibleSegments sees) {
  if (tokens.empty()) return;
  made_.plan.segments.push_back(
      {.kind = kind, .tokens = std::move(tokens), .start = start, .sees = std::move(sees)});
  made_.blocks.emplace_back();
}

void PlanWriter::add_user(std::int32_t start) {
  add(SegmentKind::user, prompt_.history, start);
  name_last(
      !prompt_.history.empty(),
      [&](const BlockNames& names) { return names.user(prompt_.tenant, prompt_.history); },
      owner_of_user(prompt_.tenant, prompt_.user));
}

// The boundaries of the parts do not depend on later tokens. The remainder is a shorter block of
// its own, so only it is forgotten when new events come.
void PlanWriter::add_user_in_parts(std::int32_t start) {
  const std::size_t all = prompt_.history.size();
  const std::size_t part = prompt_.form.history_part > 0 ? prompt_.form.history_part : all;
  std::optional<BlockName> before;
  for (std::size_t begin = 0; begin < all; begin += part) {
    const Tokens tokens = prompt_.history.part(begin, std::min(part, all - begin));
    const std::int32_t at = start + static_cast<std::int32_t>(begin);
    add(SegmentKind::user, tokens, at);
    name_last(
        true,
        [&](const BlockNames& names) {
          return before ? names.user_after(prompt_.tenant, *before, tokens, at)
                        : names.user(prompt_.tenant, tokens);
        },
        owner_of_user(prompt_.tenant, prompt_.user));
    before = made_.blocks.back().name;
  }
}

Candidate PlanWriter::finish(std::int32_t start) && {
  const PromptForm& form = prompt_.form;
  if (form.scores_each()) return std::move(made_);
  TROUPE_CHECK(!form.discriminant.empty(), "a prompt ends with a discriminant token");
  add(SegmentKind::instruction, form.instruction, start);
  add(SegmentKind::discriminant, form.discriminant,
      start + static_cast<std::int32_t>(form.instruction.size()));
  Readout readout{.segment = count() - 1, .offset = static_cast<std::uint32_t>(form.discriminant.size() - 1)};
  readout.rows.reserve(prompt_.items.size());
  for (const ItemView& item : prompt_.items) readout.rows.push_back(item.identifier);
  made_.plan.readouts.push_back(std::move(readout));
  return std::move(made_);
}

Candidate PlanWriter::finish(Search search) && {
  TROUPE_CHECK(count() > 0, "a search begins after a token");
  made_.plan.search = std::move(search);
  made_.plan.search.segment = count() - 1;
  return std::move(made_);
}

}  // namespace troupe::router
