#pragma once
// The table of a prototypes' file (prototypes.h): which prototype a token has at a position, without
// hashing. It covers the tokens that histories had when the prototypes were made, at every position
// between the first and the last of those histories. A token near one position mostly has one
// prototype, so the table keeps runs of positions. It equals hashing everywhere.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/tokens.h"
#include "kernels/decoder/prototype_hash.h"

namespace troupe::kernels {

inline constexpr std::uint32_t no_prototype = UINT32_MAX;

// Consecutive positions of a token with one prototype, or none. The run ends where the token's next
// one begins.
struct PrototypeRun {
  std::uint32_t position = 0;  // the first one
  std::uint32_t prototype = no_prototype;
  bool operator==(const PrototypeRun&) const = default;
};
static_assert(sizeof(PrototypeRun) == 8);

// A view of a table whose numbers are in memory or in a mapped file.
struct PrototypeTable {
  std::uint32_t first = 0, end = 0;  // positions that it covers
  std::span<const std::uint32_t>
      starts;  // [vocabulary + 1]: a token's first run; its last is before the next
  std::span<const PrototypeRun> runs = {};  // by token and position

  // Returns the prototype or `no_prototype`; nullopt if the table does not cover the token there.
  std::optional<std::uint32_t> find(Token token, std::uint32_t position) const;
  // Returns "" if the table is sound for so many prototypes, else what is wrong and what was expected.
  std::string fault(std::uint32_t prototypes) const;
};

// A table in memory.
struct PrototypeTableDraft {
  std::uint32_t first = 0, end = 0;
  std::vector<std::uint32_t> starts;
  std::vector<PrototypeRun> runs;
  PrototypeTable view() const { return {first, end, starts, runs}; }
};

// Number of times that each token was seen at each position.
using TokenCounts = std::map<std::pair<Token, std::uint32_t>, std::uint64_t>;

// Hashes every token of `counts` at every position between the first and the last of them, the most
// frequent tokens first, until a token's runs would be more than options.runs_max.
PrototypeTableDraft make_prototype_table(const TokenCounts& counts, const PositionalEmbedding& embedding,
                                         const HashTables& hash, const PrototypeOptions& options,
                                         std::uint32_t vocabulary, std::uint32_t positions_max);

}  // namespace troupe::kernels
