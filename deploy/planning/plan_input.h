#pragma once
// What `troupe plan` plans for: a catalog without a model (ids and lengths), how often its items are asked
// for, and which of them together.
#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "placement/assignment/local_share.h"

namespace troupe::deploy {

struct PlanCatalog {
  std::vector<std::string> ids;
  std::vector<std::uint32_t> tokens;                               // of each item, 1 or more
  std::unordered_map<std::string, placement::ItemNumber> numbers;  // by id

  double mean_tokens() const;
};

// items.jsonl: its tokens; items.tsv: the codes of sid, 1 where there are none. Throws ImportError, also for
// an id that is there twice.
PlanCatalog read_plan_catalog(const std::filesystem::path& folder);

struct PlanHistories {
  placement::Requests requests;  // runs of at most so many consecutive items of one user
  double mean_events = 0;        // of a user
};
// As read_users reads them; none if the folder has none. Throws ImportError for an item that the catalog does
// not have.
PlanHistories read_plan_histories(const std::filesystem::path& folder, const PlanCatalog& catalog,
                                  std::size_t candidates);

// Lines of item, tab, count, plain or gzip; the first may name the columns. Items that it does not name have
// none. Throws ImportError for an unknown item, one that is there twice, and what is no count.
std::vector<std::uint64_t> read_popularity(const std::filesystem::path& file, const PlanCatalog& catalog);

// One use an item and occurrence.
std::vector<std::uint64_t> count_uses(const placement::Requests& requests, std::size_t items);

// Three parts of the requests, by chance: what is planned with, and two halves of what is held out.
struct SplitRequests {
  placement::Requests plan, predict, simulate;
};
SplitRequests split_requests(const placement::Requests& requests, double held_out);

}  // namespace troupe::deploy
