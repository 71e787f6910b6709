// Validates segment plans: plans are the one form of every prompt that Troupe computes. An invalid
// plan gets a text that names the member, what was found and what was expected. The kernels then
// need no checks of their own.
#include "kernels/base/plan.h"

#include <algorithm>
#include <span>

#include "kernels/base/path_index.h"

namespace troupe::kernels {
namespace {

// A member of a plan, such as segments[3].tokens. Its text is made only for a fault: checking a
// sound plan, which happens before every pass, allocates nothing.
struct MemberName {
  const char* list;
  std::size_t index;
  const char* member = "";

  std::string text() const { return std::string(list) + "[" + std::to_string(index) + "]" + member; }
  std::string text(std::size_t at) const { return text() + "[" + std::to_string(at) + "]"; }
};

std::string fault(const std::string& where, std::int64_t found, const std::string& expected) {
  return where + " is " + std::to_string(found) + "; expected " + expected;
}

// Returns a fault for the first of `tokens` outside the vocabulary, or "".
std::string tokens_fault(std::span<const Token> tokens, const MemberName& place, const PlanLimits& limits) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= limits.vocabulary)
      return fault(place.text(i), tokens[i],
                   "from 0 to below the vocabulary's " + std::to_string(limits.vocabulary));
  return "";
}

std::string sees_fault(const Segment& segment, std::size_t index) {
  const MemberName place{"segments", index, ".sees"};
  std::size_t seen = 0;  // segments before this range
  std::int64_t least = 0;
  for (const VisibleSegments::Range range : segment.sees.ranges()) {
    if (range.begin < least)
      return fault(place.text(seen), range.begin, "more than " + std::to_string(least - 1) + " before it");
    if (range.begin >= range.end)
      return fault(place.text(seen), range.begin,
                   "a range that ends after it, not at " + std::to_string(range.end));
    if (range.end > index)
      return fault(place.text(seen + std::max<std::size_t>(index, range.begin) - range.begin),
                   static_cast<std::int64_t>(std::max<std::size_t>(index, range.begin)),
                   "an earlier segment than " + std::to_string(index));
    seen += range.end - range.begin;
    least = range.end;
  }
  return "";
}

std::string replaces_fault(const Plan& plan, std::size_t index) {
  const Segment& segment = plan.segments[index];
  if (segment.replaces.segment == ReplacedTokens::none) return "";
  const MemberName place{"segments", index, ".replaces"};
  const std::uint32_t replaced = segment.replaces.segment;
  if (replaced >= index)
    return fault(place.text(), replaced, "an earlier segment than " + std::to_string(index));
  const std::size_t length = plan.segments[replaced].tokens.size(), offset = segment.replaces.offset;
  if (offset > length || segment.tokens.size() > length - offset)
    return fault(place.text() + ".offset", segment.replaces.offset,
                 "one that leaves space for " + std::to_string(segment.tokens.size()) + " of " +
                     std::to_string(length) + " tokens");
  if (segment.sees.contains(replaced)) return fault(place.text(), replaced, "a segment that it does not see");
  if (plan.segments[replaced].replaces.segment != ReplacedTokens::none)
    return fault(place.text(), replaced, "a segment that replaces none itself");
  for (std::size_t i = replaced + 1; i < index; ++i) {
    const Segment& other = plan.segments[i];
    if (other.replaces.segment == replaced && other.replaces.offset < offset + segment.tokens.size() &&
        offset < other.replaces.offset + other.tokens.size())
      return fault(place.text() + ".offset", segment.replaces.offset,
                   "tokens that segments[" + std::to_string(i) + "] does not replace, too");
  }
  return "";
}

std::string start_fault(const Segment& segment, std::size_t index, const PlanLimits& limits) {
  const auto length = static_cast<std::int64_t>(segment.tokens.size());
  const std::int64_t most = limits.positions_max - length,
                     shown = std::int64_t{segment.start} + segment.shift;
  if (segment.start < 0 || segment.start > most)
    return fault(MemberName{"segments", index, ".start"}.text(), segment.start,
                 "a position from 0 that leaves space for " + std::to_string(length) + " tokens below " +
                     std::to_string(limits.positions_max));
  if (shown < 0 || shown > most)
    return fault(MemberName{"segments", index, ".shift"}.text(), segment.shift,
                 "one that moves its " + std::to_string(length) + " tokens from " +
                     std::to_string(segment.start) + " to positions from 0 to below " +
                     std::to_string(limits.positions_max));
  return "";
}

std::string segment_fault(const Plan& plan, std::size_t index, const PlanLimits& limits) {
  const Segment& segment = plan.segments[index];
  const MemberName tokens{"segments", index, ".tokens"};
  if (segment.tokens.empty()) return tokens.text() + " is empty; expected at least one token";
  if (std::string found = start_fault(segment, index, limits); !found.empty()) return found;
  if (std::string found = tokens_fault(segment.tokens, tokens, limits); !found.empty()) return found;
  if (segment.features.size() != segment.tokens.size() * limits.features)
    return MemberName{"segments", index, ".features"}.text() + " has " +
           std::to_string(segment.features.size()) + " numbers; expected " + std::to_string(limits.features) +
           " for each token";
  if (std::string found = sees_fault(segment, index); !found.empty()) return found;
  if (!limits.moves && segment.shift != 0)
    return fault(MemberName{"segments", index, ".shift"}.text(), segment.shift,
                 "0, as the model's keys cannot be moved");
  if (!limits.moves && segment.replaces.segment != ReplacedTokens::none)
    return fault(MemberName{"segments", index, ".replaces"}.text(), segment.replaces.segment,
                 "none, as the model's keys cannot be replaced");
  return replaces_fault(plan, index);
}

std::string readout_fault(const Plan& plan, std::size_t index, const PlanLimits& limits) {
  const Readout& readout = plan.readouts[index];
  if (readout.segment >= plan.segments.size())
    return fault(MemberName{"readouts", index, ".segment"}.text(), readout.segment,
                 "below " + std::to_string(plan.segments.size()));
  const std::size_t length = plan.segments[readout.segment].tokens.size();
  if (readout.offset >= length)
    return fault(MemberName{"readouts", index, ".offset"}.text(), readout.offset,
                 "below " + std::to_string(length));
  if (readout.what == Readout::What::head && readout.head >= limits.heads)
    return fault(MemberName{"readouts", index, ".head"}.text(), readout.head,
                 "below the model's " + std::to_string(limits.heads) + " heads");
  if (readout.what == Readout::What::state && limits.state == 0)
    return MemberName{"readouts", index}.text() +
           " reads a state; expected a readout that the model supports";
  return tokens_fault(readout.rows, {"readouts", index, ".rows"}, limits);
}

// Position of the first token of a search's paths: after its segment, where others see it.
std::int64_t path_start(const Plan& plan) {
  const Segment& segment = plan.segments[plan.search.segment];
  return std::int64_t{segment.start} + segment.shift + static_cast<std::int64_t>(segment.tokens.size());
}

// Checks that paths of this length have positions left. A path's last token is never computed, so
// it needs none.
std::string capacity_fault(const Plan& plan, std::size_t path_tokens, const char* what,
                           const PlanLimits& limits) {
  if (plan.search.of_items && path_tokens > 1)
    return std::string(what) + " has " + std::to_string(path_tokens) + " tokens; expected 1, an item";
  const std::int64_t available = limits.positions_max - path_start(plan) + 1;
  if (static_cast<std::int64_t>(path_tokens) <= available) return "";
  return std::string(what) + " has " + std::to_string(path_tokens) + " tokens; expected at most " +
         std::to_string(available) + " behind segments[" + std::to_string(plan.search.segment) +
         "] below position " + std::to_string(limits.positions_max);
}

std::string paths_fault(std::span<const Tokens> paths, const char* list, const PlanLimits& limits) {
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const MemberName place{list, i};
    if (paths[i].empty()) return place.text() + " is empty; expected at least one token";
    if (std::string found = tokens_fault(paths[i], place, limits); !found.empty()) return found;
  }
  return "";
}

std::string width_fault(const Search& search, const PlanLimits& limits) {
  if (limits.width_max == 0) return fault("search.width", search.width, "0, as the model does not generate");
  if (search.width > limits.width_max)
    return fault("search.width", search.width, "1 to " + std::to_string(limits.width_max));
  if (search.results < 1 || search.results > search.width)
    return fault("search.results", search.results, "1 to the width " + std::to_string(search.width));
  if (search.of_items != limits.item_searches)
    return std::string("search.of_items is ") + (search.of_items ? "true" : "false") +
           "; expected the other, as the model searches " + (limits.item_searches ? "items" : "paths");
  return "";
}

// Checks the paths and steps that the search itself names.
std::string search_paths_fault(const Plan& plan, const PlanLimits& limits) {
  const Search& search = plan.search;
  if (search.steps > 0 && !search.allowed.empty())
    return fault("search.steps", search.steps, "0, as the allowed paths say how many");
  if (std::string found = paths_fault(search.allowed, "search.allowed", limits); !found.empty()) return found;
  if (std::string found = paths_fault(search.denied, "search.denied", limits); !found.empty()) return found;
  std::size_t longest = search.steps;
  for (const Tokens& path : search.allowed) longest = std::max(longest, path.size());
  return capacity_fault(plan, longest, "the search's longest path", limits);
}

std::string search_fault(const Plan& plan, const PlanLimits& limits) {
  const Search& search = plan.search;
  if (search.width == 0)
    return search == Search{} ? "" : "search.width is 0; expected at least 1, or nothing else of a search";
  if (search.segment >= plan.segments.size())
    return fault("search.segment", search.segment, "below " + std::to_string(plan.segments.size()));
  if (std::string found = width_fault(search, limits); !found.empty()) return found;
  return search_paths_fault(plan, limits);
}

}  // namespace

std::string validate(const Plan& plan, const PathIndex* paths, const PlanLimits& limits) {
  const Search& search = plan.search;
  if (search.width == 0 || !search.allowed.empty()) return "";
  if (paths == nullptr)
    return search.steps > 0 ? "" : "search.steps is 0; expected at least 1 where no paths say how many";
  if (search.steps > 0) return fault("search.steps", search.steps, "0, as the index of paths says how many");
  if (!paths->within(limits.vocabulary))
    return "the index of paths has a token outside the vocabulary's " + std::to_string(limits.vocabulary);
  return capacity_fault(plan, paths->depth(), "the index's longest path", limits);
}

std::string validate(const Plan& plan, const PlanLimits& limits) {
  if (plan.segments.empty()) return "segments is empty; expected at least one segment";
  // Tokens of a thousand candidates lie apart and were written by another thread.
  constexpr std::size_t ahead = 8;
  for (std::size_t i = 0; i < plan.segments.size(); ++i) {
    if (i + ahead < plan.segments.size()) __builtin_prefetch(plan.segments[i + ahead].tokens.data());
    if (std::string found = segment_fault(plan, i, limits); !found.empty()) return found;
  }
  for (std::size_t i = 0; i < plan.readouts.size(); ++i)
    if (std::string found = readout_fault(plan, i, limits); !found.empty()) return found;
  if (std::string found = search_fault(plan, limits); !found.empty()) return found;
  return validate_repair(plan, limits);
}

std::size_t token_count(const Plan& plan) {
  std::size_t count = 0;
  for (const Segment& segment : plan.segments) count += segment.tokens.size();
  return count;
}

}  // namespace troupe::kernels
