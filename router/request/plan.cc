#include "router/request/plan.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "kernels/base/check.h"
#include "runtime/actor/planted.h"

namespace troupe::router {
namespace {

std::int32_t length(const std::vector<Token>& tokens) { return static_cast<std::int32_t>(tokens.size()); }

// Tenants' names of blocks are never public ones, not even those of the default tenant "".
std::string salt_of(std::string_view tenant) {
  if (planted(Bug::no_tenant_salt)) return "tenant:";
  return "tenant:" + std::string(tenant);
}

// Appends segments; an empty one leaves no trace, since a plan has no empty segments.
class Segments {
 public:
  void add(SegmentKind kind, Tokens tokens, std::int32_t start, Sees sees, SegmentBlock block = {}) {
    if (tokens.empty()) return;
    plan.segments.push_back({kind, std::move(tokens), start, std::move(sees)});
    blocks.push_back(std::move(block));
  }
  Sees all() const { return Sees::all_before(static_cast<std::uint32_t>(blocks.size())); }

  Plan plan;
  std::vector<SegmentBlock> blocks;
};

std::vector<BlockName> system_names(const PromptForm& form, const NameContext& context) {
  if (form.system.empty()) return {};
  return {system_block(form, context)};
}

}  // namespace

std::size_t item_tokens_max(std::span<const ItemView> items) {
  std::size_t tokens = 0;
  for (const ItemView& item : items) tokens = std::max(tokens, item.tokens.size());
  return tokens;
}

std::size_t positions_without_history(const PromptForm& form, std::size_t item_tokens_max) {
  return form.system.size() + form.user.size() + item_tokens_max + form.instruction.size() +
         form.discriminant.size();
}

FittedHistory fit_history(const PromptForm& form, const Profile& profile, std::size_t item_tokens_max) {
  const std::size_t events_sum =
      std::accumulate(profile.events.begin(), profile.events.end(), std::size_t{0});
  TROUPE_CHECK(events_sum == profile.tokens.size(), "a profile's events add up to its tokens");
  const std::size_t frame = positions_without_history(form, item_tokens_max);
  const std::size_t room = form.positions_max > frame ? form.positions_max - frame : 0;

  std::size_t kept = 0, events = 0;
  while (events < profile.events.size()) {
    const std::size_t next = profile.events[profile.events.size() - 1 - events];
    if (kept + next > room) break;
    kept += next;
    ++events;
  }
  FittedHistory fitted{form.user, static_cast<std::uint32_t>(profile.events.size() - events)};
  fitted.tokens.insert(fitted.tokens.end(), profile.tokens.end() - static_cast<std::ptrdiff_t>(kept),
                       profile.tokens.end());
  return fitted;
}

std::string user_key(std::string_view tenant, std::string_view user) {
  return std::to_string(tenant.size()) + ':' + std::string(tenant) + std::string(user);
}

BlockName system_block(const PromptForm& form, const NameContext& context) {
  return block_name(context, "", form.system, 0, {});
}

BlockName item_block(const PromptForm& form, const NameContext& context, std::span<const Token> tokens) {
  return block_name(context, "", tokens, length(form.system), system_names(form, context));
}

BlockName user_block(const PromptForm& form, const NameContext& context, std::string_view tenant,
                     std::span<const Token> user_tokens) {
  return block_name(context, salt_of(tenant), user_tokens, length(form.system), system_names(form, context));
}

RankPlan rank_plan(const PromptForm& form, const NameContext& context, Prefix prefix, std::string_view tenant,
                   std::string_view user, const FittedHistory& history, std::span<const ItemView> items) {
  TROUPE_CHECK(!form.discriminant.empty(), "a prompt ends with a discriminant token");
  const std::int32_t after_system = length(form.system);
  const std::int32_t user_length = length(history.tokens);
  const std::int32_t tail = after_system + user_length + static_cast<std::int32_t>(item_tokens_max(items));

  Segments segments;
  SegmentBlock system_reuse, user_reuse;
  if (prefix != Prefix::none && !form.system.empty()) system_reuse.name = system_block(form, context);
  if (prefix == Prefix::user)
    user_reuse = {user_block(form, context, tenant, history.tokens), user_key(tenant, user)};
  segments.add(SegmentKind::system, form.system, 0, {}, std::move(system_reuse));
  if (prefix != Prefix::item)
    segments.add(SegmentKind::user, history.tokens, after_system, segments.all(), std::move(user_reuse));

  const Sees items_see = segments.all();
  const std::int32_t items_start = after_system + (prefix == Prefix::item ? 0 : user_length);
<<<<<<< ours
  for (const Item& item : items) {
    SegmentBlock reuse;
    if (prefix == Prefix::item) reuse = {item.block, item.id};
=======
  for (const ItemView& item : items) {
    Segments::Reuse reuse;
    if (prefix == Prefix::item) reuse = {item.block, std::string(item.id)};
>>>>>>> theirs
    segments.add(SegmentKind::item, item.tokens, items_start, items_see, std::move(reuse));
  }
  if (prefix == Prefix::item)
    segments.add(SegmentKind::user, history.tokens, tail - user_length, segments.all());

  segments.add(SegmentKind::instruction, form.instruction, tail, segments.all());
  segments.add(SegmentKind::discriminant, form.discriminant, tail + length(form.instruction), segments.all());

<<<<<<< ours
  Readout readout{static_cast<std::uint32_t>(segments.blocks.size() - 1),
                  static_cast<std::uint32_t>(form.discriminant.size() - 1),
                  {}};
  for (const Item& item : items) readout.rows.push_back(item.identifier);
  segments.plan.readouts.push_back(std::move(readout));
  return {std::move(segments.plan), std::move(segments.blocks), history.cut};
=======
  PlannedReadout readout{static_cast<std::uint32_t>(segments.list.size() - 1),
                         static_cast<std::uint32_t>(form.discriminant.size() - 1),
                         {}};
  for (const ItemView& item : items) readout.rows.push_back(item.identifier);
  return {std::move(segments.list), {std::move(readout)}, history.cut};
>>>>>>> theirs
}

Execute score_plan(const ScoreRequest& request) {
  Execute execute;
  Plan& plan = execute.plan;
  if (!request.query.empty()) plan.segments.push_back({SegmentKind::user, request.query});
  const Sees sees = Sees::all_before(static_cast<std::uint32_t>(plan.segments.size()));
  for (const TokenList& item : request.items) {
    plan.readouts.push_back({static_cast<std::uint32_t>(plan.segments.size()),
                             static_cast<std::uint32_t>(item.tokens.size() - 1), request.label_tokens});
    plan.segments.push_back({SegmentKind::item, item.tokens, length(request.query), sees});
  }
  execute.blocks.resize(plan.segments.size());
  return execute;
}

placement::Work score_work(const placement::UnitCosts& costs, const ScoreRequest& request) {
  const auto query = static_cast<double>(request.query.size());
  placement::Work work = costs.computed(query, 0) + costs.passes(1);
  for (const TokenList& item : request.items)
    work += costs.computed(static_cast<double>(item.tokens.size()), query);
  return work + costs.readouts(static_cast<double>(request.items.size()));
}

}  // namespace troupe::router
