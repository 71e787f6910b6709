// Computes the correct results of requests plan by plan on the toy model, without the router's
// code. Simulated replies are compared with them.
#include "sim/world/expected_results.h"

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>

#include "sim/world/expected_repair.h"
#include "sim/world/toy_search.h"

namespace troupe::sim {
namespace {

// Computes the values of segments, one after the other: computed ones or those made of prototypes.
class Values {
 public:
  Values(std::string_view model_version, const ToyFamily& family)
      : key_(model_key(model_version)), family_(family) {}

  // Appends the segment's value to `to`; an empty segment has none.
  void add(TokenRun tokens, std::size_t start, std::vector<SegmentValue> seen,
           std::vector<SegmentValue>& to) {
    tokens_ += static_cast<std::uint32_t>(tokens.size());
    if (!tokens.empty()) to.push_back(family_.value_of(key_, tokens, static_cast<std::int32_t>(start), seen));
  }
  void add_of_prototypes(TokenRun tokens, std::size_t place, std::string_view checksum,
                         std::vector<SegmentValue>& to) {
    to.push_back(prototypes_value(key_, checksum, tokens, static_cast<std::int32_t>(place)));
  }
  std::uint32_t tokens() const { return tokens_; }

 private:
  std::uint64_t key_;
  const ToyFamily& family_;
  std::uint32_t tokens_ = 0;
};

std::vector<Token> joined(std::initializer_list<TokenRun> runs) {
  std::vector<Token> tokens;
  for (const TokenRun run : runs) tokens.insert(tokens.end(), run.begin(), run.end());
  return tokens;
}

// Drops the oldest events until the prompt fits into the model's positions and the form's number of events.
// Items take the positions of the longest item, or those of all items if they are in a row, with the tokens
// behind which each is scored.
Prompt prompt_of(const PromptForm& form, const Profile& profile, std::span<const Item> items, bool in_a_row,
                 std::uint32_t& cut, const std::set<std::string, std::less<>>& in_place = {}) {
  Prompt prompt{form, {form.user.begin(), form.user.end()}, {}};
  for (const Item& item : items) {
    prompt.items.push_back(joined({form.item, item.tokens}));
    prompt.longest_item = std::max(prompt.longest_item, prompt.items.back().size());
    prompt.item_tokens += prompt.items.back().size();
    prompt.in_place.push_back(in_place.contains(item.id));
    if (prompt.in_place.back()) prompt.in_place_tokens += prompt.items.back().size();
  }
  const std::size_t mark = form.event.size();
  std::size_t positions = form.system.size() + form.user.size() + form.instruction.size() +
                          form.discriminant.size() + profile.tokens.size() + mark * profile.events.size();
  positions += in_a_row ? prompt.tokens_in_a_row() : prompt.longest_item + form.score.size();
  std::size_t at = 0;
  const std::size_t events_max = form.events_max > 0 ? form.events_max : profile.events.size();
  const auto is_too_long = [&] {
    return positions > form.positions_max || profile.events.size() - cut > events_max;
  };
  for (cut = 0; cut < profile.events.size() && is_too_long(); ++cut) {
    positions -= mark + profile.events[cut];
    at += profile.events[cut];
  }
  for (std::size_t event = cut; event < profile.events.size(); ++event) {
    const std::size_t tokens = profile.events[event];
    const std::vector<Token> whole = joined({form.event, TokenRun(profile.tokens).subspan(at, tokens)});
    prompt.user.insert(prompt.user.end(), whole.begin(), whole.end());
    prompt.events.push_back(static_cast<std::uint32_t>(whole.size()));
    at += tokens;
  }
  return prompt;
}

// Order: system → user → items, each starting after the user → instruction, discriminant, starting
// after the longest item.
std::vector<SegmentValue> user_plan_values(const Prompt& p, Values& values) {
  std::vector<SegmentValue> seen;
  values.add(p.form.system, 0, {}, seen);
  values.add(p.user, p.form.system.size(), seen, seen);
  const std::vector<SegmentValue> context = seen;
  for (const std::vector<Token>& item : p.items)
    values.add(item, p.form.system.size() + p.user.size(), context, seen);
  return seen;
}

// Order: system → items, each starting after the system → user, starting after the longest item →
// instruction, discriminant. A repaired item has its value with the items before it in sight, and its
// block's.
std::vector<SegmentValue> item_plan_values(const Prompt& p, Values& values, const ItemRepair& of) {
  std::vector<SegmentValue> seen;
  values.add(p.form.system, 0, {}, seen);
  const std::vector<SegmentValue> context = seen;
  for (const std::vector<Token>& item : p.items) {
    values.add(item, p.form.system.size(), of.in_order ? seen : context, seen);
    if (!of.in_order || !of.blocks) continue;
    std::vector<SegmentValue> block;
    values.add(item, p.form.system.size(), context, block);
    seen.back() = repaired_value(seen.back(), block.front(), of.repair);
  }
  values.add(p.user, p.form.system.size() + p.longest_item, seen, seen);
  return seen;
}

// Returns the values of the tokens behind which each item of an item-first prompt is scored: they start after
// the user and see the system prompt, their item and the user. `seen` has the values of these, in order.
std::vector<SegmentValue> scored_behind_user(const Prompt& p, Values& values,
                                             const std::vector<SegmentValue>& seen) {
  std::vector<SegmentValue> scored;
  const std::size_t before = p.form.system.empty() ? 0 : 1;
  for (std::size_t i = 0; i < p.items.size(); ++i) {
    std::vector<SegmentValue> own(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(before));
    own.push_back(seen.at(before + i));
    if (!p.user.empty()) own.push_back(seen.back());
    values.add(p.form.score, p.form.system.size() + p.longest_item + p.user.size(), own, scored);
  }
  return scored;
}

// Order: system, user, items one after the other. Each item sees all before it; its value is repaired from
// its own value and its block's, which is computed alone from position 0 or behind the system prompt. Events
// of a history that has blocks are treated the same. Parts without a block are computed. The tokens behind
// which items are scored follow each; `scored` gets their values.
// The selection by tail counts the attention from behind the last part with a block or, if that is an item,
// from behind the last item.
std::vector<SegmentValue> blocks_plan_values(const Prompt& p, Values& values, const RequestedRepair& asked,
                                             const Blocks& of, std::vector<SegmentValue>& scored) {
  std::vector<SegmentValue> seen, blocks;
  std::vector<Part> parts = of.history;  // of the prompt behind the system prompt
  if (parts.empty() && !p.user.empty()) parts.push_back({p.user});
  for (std::size_t i = 0; i < p.items.size(); ++i) {
    parts.push_back({p.items[i], of.item_tokens > 0 && !p.in_place[i]});
    parts.back().is_item = true;
    if (p.form.scores_each()) parts.push_back({p.form.score, false, true});
  }
  values.add(p.form.system, 0, {}, seen);
  const std::vector<SegmentValue> context = p.form.blocks_see_system ? seen : std::vector<SegmentValue>();
  std::size_t start = p.form.system.size(), last_place = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool of_history = i < of.history.size();
    if (parts[i].is_reused_span && of_history && asked.choice.prototypes)
      values.add_of_prototypes(parts[i].tokens, start, p.form.prototype_set->checksum(), blocks);
    else if (parts[i].is_reused_span)
      values.add(parts[i].tokens, context.empty() ? 0 : p.form.system.size(), context, blocks);
    if (parts[i].is_reused_span) last_place = i;
    start += parts[i].tokens.size();
  }
  kernels::Repair repair = of.repair;
  if (of.by_tail && !blocks.empty()) {
    // Number of segments before it.
    const std::size_t before = (p.form.system.empty() ? 0 : 1) + blocks.size();
    for (std::size_t i = parts.size() - 1; parts[last_place].is_item && i > last_place; --i)
      if (parts[i].is_item) last_place = i;
    repair.attending = static_cast<std::uint32_t>(before + last_place + 1);
  }
  std::size_t next = 0;
  start = p.form.system.size();
  for (const Part& part : parts) {
    values.add(part.tokens, start, seen, seen);
    if (part.is_reused_span) seen.back() = repaired_value(seen.back(), blocks[next++], repair);
    if (part.is_score) scored.push_back(seen.back());
    start += part.tokens.size();
  }
  return seen;
}

// Returns the score of a candidate that is read at token `offset` of a segment with this value.
double score_behind(const PromptForm& form, const SegmentValue& value, std::size_t offset,
                    const ToyFamily& family) {
  const std::array<Token, 2> rows{form.yes, form.no};
  const ScoreRow row = family.logits_of(value, static_cast<std::uint32_t>(offset), rows);
  return row.scores.at(0) - row.scores.at(1);
}

// Order: system → user → for each item, starting after the user: item, instruction, discriminant; or item
// and the tokens behind which it is scored.
ExpectedRanking ranking_apart(Arrangement arrangement, const PromptForm& form, std::string_view model_version,
                              const Profile& profile, std::span<const Item> items, const ToyFamily& family) {
  ExpectedRanking ranking{.arrangement = arrangement};
  const Prompt prompt = prompt_of(form, profile, items, false, ranking.history_cut);
  Values values(model_version, family);
  std::vector<SegmentValue> context;
  values.add(form.system, 0, {}, context);
  values.add(prompt.user, form.system.size(), context, context);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::vector<Token> tokens =
        joined({prompt.items[i], form.score, form.instruction, form.discriminant});
    std::vector<SegmentValue> own;
    values.add(tokens, form.system.size() + prompt.user.size(), context, own);
    const auto last = static_cast<std::uint32_t>(tokens.size() - 1);
    ranking.scores.push_back(
        form.scores_each() ? score_behind(form, own.front(), last, family)
                           : family.logits_of(own.front(), last, {&items[i].identifier, 1}).scores.front());
  }
  ranking.tokens = values.tokens();
  return ranking;
}

// Returns what a model reads at a candidate that sees these values, one number per task, candidate by
// candidate.
void read_tasks(const PromptForm& form, std::size_t start, const std::vector<SegmentValue>& seen,
                std::span<const Item> items, Values& values, const ToyFamily& family,
                ExpectedRanking& ranking) {
  for (const Item& item : items) {
    std::vector<SegmentValue> own;
    values.add(item.tokens, start, seen, own);
    for (std::uint32_t task = 0; task < form.tasks_read(); ++task)
      ranking.scores.push_back(family.logits_of(own.front(), 0, {{static_cast<Token>(task)}}).scores.front());
  }
  ranking.tokens = values.tokens();
}

// Returns what a model of next items reads at a token of the last segment: one number per item, by its token.
void read_next_items(const SegmentValue& last, std::uint32_t offset, std::span<const Item> items,
                     const Values& values, const ToyFamily& family, ExpectedRanking& ranking) {
  for (const Item& item : items)
    ranking.scores.push_back(family.logits_of(last, offset, {item.tokens.data(), 1}).scores.front());
  ranking.tokens = values.tokens();
}

// Adds the values of events in parts of the form's length, each of which sees those before it.
void add_parts(const PromptForm& form, TokenRun events, Values& values, std::vector<SegmentValue>& seen) {
  const std::size_t part = form.history_part > 0 ? form.history_part : events.size();
  for (std::size_t begin = 0; begin < events.size(); begin += part)
    values.add(events.subspan(begin, std::min(part, events.size() - begin)), begin, seen, seen);
}

// Adds the values of a history: the events but the last in parts, then the last event; or all events as one
// segment. Returns the offset of the last event in its segment.
std::uint32_t add_history(const PromptForm& form, TokenRun events, Values& values,
                          std::vector<SegmentValue>& seen) {
  if (events.empty()) return 0;
  if (form.whole_history) {
    values.add(events, 0, seen, seen);
    return static_cast<std::uint32_t>(events.size() - 1);
  }
  add_parts(form, events.first(events.size() - 1), values, seen);
  values.add(events.last(1), events.size() - 1, seen, seen);
  return 0;
}

// Order: the history → candidates, which see all events. Candidates of a model of next items are read at
// the last event.
ExpectedRanking ranking_of_history(const PromptForm& form, std::string_view model_version,
                                   const Profile& profile, std::span<const Item> items,
                                   const ToyFamily& family) {
  ExpectedRanking ranking{.arrangement = Arrangement::history};
  const Prompt prompt = prompt_of(form, profile, items, false, ranking.history_cut);
  Values values(model_version, family);
  std::vector<SegmentValue> seen;
  const TokenRun events(prompt.user);
  const std::uint32_t last = add_history(form, events, values, seen);
  if (form.next_items)
    read_next_items(seen.back(), last, items, values, family, ranking);
  else
    read_tasks(form, events.size(), seen, items, values, family, ranking);
  return ranking;
}

// Order: of each tower its newest events in parts, which see those before them in the tower → candidates,
// which see the events of all towers. All events have the same action, so every tower takes the newest.
ExpectedRanking ranking_of_towers(const PromptForm& form, std::string_view model_version,
                                  const Profile& profile, std::span<const Item> items,
                                  const ToyFamily& family) {
  ExpectedRanking ranking{.arrangement = Arrangement::towers};
  Values values(model_version, family);
  std::vector<SegmentValue> all;
  std::size_t read = 0;
  for (const Tower& tower : form.towers) {
    const std::size_t events = std::min<std::size_t>(tower.events_max, profile.tokens.size());
    std::vector<SegmentValue> seen;
    add_parts(form, TokenRun(profile.tokens).last(events), values, seen);
    all.insert(all.end(), seen.begin(), seen.end());
    read = std::max(read, events);
  }
  ranking.history_cut = static_cast<std::uint32_t>(profile.events.size() - read);
  read_tasks(form, 0, all, items, values, family, ranking);
  return ranking;
}

}  // namespace

std::optional<ExpectedRanking> expected_ranking(const PromptForm& form, std::string_view model_version,
                                                std::string_view plan, const Profile& profile,
                                                std::span<const Item> items, const ToyFamily& family,
                                                const RequestedRepair& asked) {
  if (plan == "apart" || (plan == "user" && form.scores_each()))
    return ranking_apart(plan == "apart" ? Arrangement::candidates_apart : Arrangement::user_first, form,
                         model_version, profile, items, family);
  if (plan == "history") return ranking_of_history(form, model_version, profile, items, family);
  if (plan == "towers") return ranking_of_towers(form, model_version, profile, items, family);
  const bool with_prototypes = plan == "prototypes", all_blocks = plan == "all_blocks" || with_prototypes;
  if (with_prototypes && !form.prototype_set) return std::nullopt;
  const bool in_a_row = plan == "blocks" || all_blocks || plan == "causal";
  if (!in_a_row && plan != "user" && plan != "item") return std::nullopt;
  RequestedRepair repair = asked;
  if (plan == "causal") repair.approximate_max = 0;
  if (with_prototypes) repair.choice.prototypes = true;
  ExpectedRanking ranking;
  ranking.arrangement = in_a_row         ? Arrangement::causal
                        : plan == "user" ? Arrangement::user_first
                                         : Arrangement::item_first;
  const Prompt prompt = prompt_of(form, profile, items, in_a_row, ranking.history_cut, repair.in_place);
  Values values(model_version, family);
  const std::size_t frame = form.system.size() + prompt.user.size();
  const std::size_t whole =
      frame + prompt.tokens_in_a_row() + form.instruction.size() + form.discriminant.size();
  const Blocks blocks = in_a_row ? blocks_of(prompt, repair, model_version, all_blocks, whole) : Blocks{};
  const ItemRepair items_repaired = plan == "item" ? item_repair_of(prompt, repair, whole) : ItemRepair{};
  ranking.approximate =
      static_cast<double>(blocks.left() + items_repaired.changed) / static_cast<double>(whole);
  std::vector<SegmentValue> scored;
  std::vector<SegmentValue> seen = in_a_row ? blocks_plan_values(prompt, values, repair, blocks, scored)
                                   : plan == "user" ? user_plan_values(prompt, values)
                                                    : item_plan_values(prompt, values, items_repaired);
  ranking.tokens = static_cast<std::uint32_t>(whole);
  if (plan == "item" && form.scores_each()) scored = scored_behind_user(prompt, values, seen);
  if (form.scores_each()) {
    for (const SegmentValue& value : scored)
      ranking.scores.push_back(score_behind(form, value, form.score.size() - 1, family));
    return ranking;
  }
  const std::size_t end = frame + (in_a_row ? prompt.item_tokens : prompt.longest_item);
  values.add(form.instruction, end, seen, seen);
  values.add(form.discriminant, end + form.instruction.size(), seen, seen);
  std::vector<Token> rows;
  for (const Item& item : items) rows.push_back(item.identifier);
  const auto last = static_cast<std::uint32_t>(form.discriminant.size() - 1);
  ranking.scores = family.logits_of(seen.back(), last, rows).scores;
  return ranking;
}

namespace {

using Path = std::vector<Token>;
// Items that may be returned, by identifier. An identifier without items may be followed in the search but
// leads to no result.
using Paths = std::map<Path, std::vector<const Item*>>;

bool begins(const Path& path, TokenRun with) {
  return path.size() >= with.size() && std::equal(with.begin(), with.end(), path.begin());
}

Paths paths_of(std::span<const Item> items, const GenerateRequest& request) {
  const std::set<std::string_view> allow(request.allow.begin(), request.allow.end());
  const std::set<std::string_view> deny(request.deny.begin(), request.deny.end());
  Paths paths;
  for (const Item& item : items) {
    if (!allow.empty() && (!allow.contains(item.id) || deny.contains(item.id))) continue;
    std::vector<const Item*>& sharing = paths[item.tokens];
    if (!deny.contains(item.id)) sharing.push_back(&item);
  }
  return paths;
}

// An identifier starts at the beginning of an event, outside the identifiers before it.
void exclude_seen(const Profile& profile, std::span<const Item> items, bool listed, Paths& paths) {
  const std::size_t length = items.empty() ? 0 : items.front().tokens.size();
  std::size_t begin = 0, end = 0;
  for (const std::uint32_t event : profile.events) {
    const TokenRun here = TokenRun(profile.tokens).subspan(begin);
    const bool inside = begin < end;
    begin += event;
    if (inside || here.size() < length) continue;
    const Path path(here.begin(), here.begin() + static_cast<std::ptrdiff_t>(length));
    if (std::ranges::find(items, path, &Item::tokens) == items.end()) continue;
    end = begin - event + length;
    if (listed)
      paths.erase(path);
    else
      paths[path].clear();
  }
}

// Returns the tokens that may follow `path`, ascending; true = an item that may be returned is behind it.
std::map<Token, bool> next_of(const Paths& paths, const Path& path) {
  std::map<Token, bool> next;
  for (auto at = paths.lower_bound(path); at != paths.end() && begins(at->first, path); ++at)
    next[at->first[path.size()]] |= !at->second.empty();
  return next;
}

struct Best {
  Search::Normalisation normalised;
  std::uint32_t width;
  bool by_token;
};

// Returns the best paths, searched level by level.
std::vector<Beam> best_paths(const Paths& paths, const Best& best,
                             const std::function<std::vector<double>(const Path&, TokenRun)>& values_of) {
  const std::size_t length = paths.empty() ? 0 : paths.begin()->first.size();
  std::vector<Beam> kept(length > 0 ? 1 : 0);
  for (std::size_t level = 0; level < length; ++level) {
    std::vector<Beam> longer;
    for (const Beam& beam : kept) {
      const std::map<Token, bool> next = next_of(paths, beam.path);
      Path tokens;
      for (const auto& [token, lives] : next) tokens.push_back(token);
      const std::vector<double> values = values_of(beam.path, tokens);
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (!next.at(tokens[i])) continue;
        longer.push_back({beam.path, beam.log_probability + values[i], beam.by_token});
        longer.back().path.push_back(tokens[i]);
        if (best.by_token) longer.back().by_token.push_back(values[i]);
      }
    }
    std::ranges::sort(longer, is_better);
    if (longer.size() > best.width) longer.resize(best.width);
    kept = std::move(longer);
  }
  return kept;
}

// Adds the values of a generator's prompt; returns the offset behind which its search begins.
std::uint32_t add_generators_prompt(const PromptForm& form, const Prompt& prompt, Values& values,
                                    std::vector<SegmentValue>& seen) {
  values.add(form.system, 0, {}, seen);
  std::size_t last_tokens = form.system.size();
  for (std::size_t begin = 0, end = 0; begin < prompt.user.size(); begin = end) {
    end = form.history_part > 0 ? std::min<std::size_t>(begin + form.history_part, prompt.user.size())
                                : prompt.user.size();
    values.add(TokenRun(prompt.user).subspan(begin, end - begin), form.system.size() + begin, seen, seen);
    last_tokens = end - begin;
  }
  values.add(form.instruction, form.system.size() + prompt.user.size(), seen, seen);
  if (!form.instruction.empty()) last_tokens = form.instruction.size();
  return static_cast<std::uint32_t>(last_tokens - 1);
}

}  // namespace

ExpectedGeneration expected_generation(const PromptForm& form, std::string_view model_version,
                                       const Profile& profile, std::span<const Item> items,
                                       const GenerateRequest& request, const ToyFamily& family) {
  ExpectedGeneration made;
  made.asked_for = request.top_k > 0 ? request.top_k : 10;
  if (request.width > 0) made.asked_for = std::min(made.asked_for, request.width);
  made.width = request.width > 0 ? request.width
               : form.next_items ? made.asked_for
                                 : std::max(made.asked_for, 128U);
  Paths paths = paths_of(items, request);
  if (request.exclude_seen) exclude_seen(profile, items, !request.allow.empty(), paths);

  const Prompt prompt =
      prompt_of(form, profile, items.first(std::min<std::size_t>(items.size(), 1)), false, made.history_cut);
  Values values(model_version, family);
  std::vector<SegmentValue> seen;
  const std::uint32_t last = form.next_items ? add_history(form, prompt.user, values, seen)
                                             : add_generators_prompt(form, prompt, values, seen);
  made.tokens = values.tokens();

  const bool over_allowed =
      request.among_allowed || request.normalised == Normalised::allowed ||
      (request.normalised == Normalised::by_model && form.normalised == Normalised::allowed);
  const Best best{over_allowed ? Search::Normalisation::allowed : Search::Normalisation::vocabulary,
                  made.width, request.logprobs};
  const auto beams = best_paths(paths, best, [&](const Path& path, TokenRun next) {
    return log_probabilities(family, model_key(model_version), seen.back(), last, path, next,
                             best.normalised);
  });
  for (std::size_t i = 0; i < beams.size() && i < made.asked_for; ++i) {
    std::map<std::string, const Item*> sharing;
    for (const Item* item : paths.at(beams[i].path)) sharing[item->id] = item;
    double score = beams[i].log_probability;
    if (form.next_items)
      score = family.logits_of(seen.back(), last, beams[i].path).scores.front() * form.temperature;
    for (const auto& [id, item] : sharing)
      if (made.items.size() < made.asked_for)
        made.items.push_back(
            {id, item->title, item->tokens, beams[i].log_probability, beams[i].by_token, score});
  }
  return made;
}

ExpectedScores expected_scores(std::string_view model_version, const ScoreRequest& request,
                               const ToyFamily& family) {
  ExpectedScores scores;
  Values values(model_version, family);
  std::vector<SegmentValue> context;
  values.add(request.query, 0, {}, context);
  for (const TokenList& item : request.items) {
    std::vector<SegmentValue> value;
    values.add(item.tokens, request.query.size(), context, value);
    scores.items.push_back(family.logits_of(value.at(0), static_cast<std::uint32_t>(item.tokens.size() - 1),
                                            request.label_tokens));
  }
  scores.tokens = values.tokens();
  return scores;
}

}  // namespace troupe::sim
