// Makes, checks and reads the table from tokens at positions to prototypes.
#include "kernels/decoder/prototype_table.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

// Returns the tokens by how often they were seen, the most frequent first.
std::vector<Token> by_frequency(const TokenCounts& counts) {
  std::map<Token, std::uint64_t> totals;
  for (const auto& [seen, count] : counts) totals[seen.first] += count;
  std::vector<std::pair<Token, std::uint64_t>> order(totals.begin(), totals.end());
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<Token> tokens;
  for (const auto& [token, count] : order) tokens.push_back(token);
  return tokens;
}

std::string run_fault(std::uint32_t token, const std::string& found, const std::string& expected) {
  return "the table's runs of token " + std::to_string(token) + ' ' + found + "; expected " + expected;
}

}  // namespace

std::optional<std::uint32_t> PrototypeTable::find(Token token, std::uint32_t position) const {
  if (position < first || position >= end) return std::nullopt;
  const auto index = static_cast<std::size_t>(token);
  if (token < 0 || index + 1 >= starts.size()) return std::nullopt;
  const auto own = runs.subspan(starts[index], starts[index + 1] - starts[index]);
  if (own.empty()) return std::nullopt;
  return std::prev(std::ranges::upper_bound(own, position, {}, &PrototypeRun::position))->prototype;
}

std::string PrototypeTable::fault(std::uint32_t prototypes) const {
  TROUPE_CHECK(!starts.empty(), "a table has a start behind the last token");
  for (std::size_t i = 0; i < starts.size(); ++i)
    if (starts[i] > runs.size() || (i == 0 ? starts[i] != 0 : starts[i] < starts[i - 1]))
      return "the table's start of token " + std::to_string(i) + " is " + std::to_string(starts[i]) +
             "; expected ascending numbers from 0 to " + std::to_string(runs.size());
  if (starts.back() != runs.size())
    return "the table's last start is " + std::to_string(starts.back()) + "; expected " +
           std::to_string(runs.size()) + ", the number of runs";
  for (std::uint32_t token = 0; token + 1 < starts.size(); ++token)
    for (std::uint32_t i = starts[token]; i < starts[token + 1]; ++i) {
      const auto [position, prototype] = runs[i];
      const bool begins = i == starts[token];
      if (begins ? position != first : position <= runs[i - 1].position || position >= end)
        return run_fault(
            token, "have position " + std::to_string(position),
            "ascending positions from " + std::to_string(first) + ", below " + std::to_string(end));
      if (prototype >= prototypes && prototype != no_prototype)
        return run_fault(token, "have prototype " + std::to_string(prototype),
                         "less than " + std::to_string(prototypes) + ", or none");
    }
  return "";
}

PrototypeTableDraft make_prototype_table(const TokenCounts& counts, const PositionalEmbedding& embedding,
                                         const HashTables& hash, const PrototypeOptions& options,
                                         std::uint32_t vocabulary, std::uint32_t positions_max) {
  PrototypeTableDraft draft{.starts = std::vector<std::uint32_t>(vocabulary + 1)};
  if (counts.empty()) return draft;
  std::uint32_t last = 0, first = UINT32_MAX;
  for (const auto& [seen, count] : counts)
    first = std::min(first, seen.second), last = std::max(last, seen.second);
  draft.first = embedding.ignores_positions() ? 0 : first;
  draft.end = embedding.ignores_positions() ? positions_max : last + 1;
  const std::uint32_t hashed_end = embedding.ignores_positions() ? draft.first + 1 : draft.end;
  const auto cosine_min = static_cast<float>(options.cosine_min);
  std::vector<std::vector<float>> waves;  // of each position
  for (std::uint32_t position = draft.first; position < hashed_end; ++position)
    waves.push_back(embedding.waves_at(position));
  HashSweep sweep(hash, waves);
  std::map<Token, std::vector<PrototypeRun>> made;
  std::size_t total = 0;
  for (const Token token : by_frequency(counts)) {
    std::vector<PrototypeRun> runs;
    std::uint32_t position = draft.first;
    for (const auto& found : sweep.nearest(embedding.row(token))) {
      const std::uint32_t prototype = found && found->cosine >= cosine_min ? found->number : no_prototype;
      if (runs.empty() || runs.back().prototype != prototype) runs.push_back({position, prototype});
      ++position;
    }
    if (total + runs.size() > options.runs_max) break;
    total += runs.size();
    made.emplace(token, std::move(runs));
  }
  draft.runs.reserve(total);
  for (std::uint32_t token = 0; token < vocabulary; ++token) {
    draft.starts[token] = static_cast<std::uint32_t>(draft.runs.size());
    if (const auto at = made.find(static_cast<Token>(token)); at != made.end())
      draft.runs.insert(draft.runs.end(), at->second.begin(), at->second.end());
  }
  draft.starts[vocabulary] = static_cast<std::uint32_t>(draft.runs.size());
  return draft;
}

}  // namespace troupe::kernels
