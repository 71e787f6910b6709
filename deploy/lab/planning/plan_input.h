#pragma once
// Input of `troupe-lab plan`: a catalog without a model (ids and lengths), the popularity of its items,
// and which items are requested together.
#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "placement/assignment/local_share.h"

namespace troupe::deploy {

struct PlanCatalog {
  std::vector<std::string> ids;
  std::vector<std::uint32_t> tokens;                               // of each item, at least 1
  std::unordered_map<std::string, placement::ItemNumber> numbers;  // item number by id

  double mean_tokens() const;
};

// Reads items.jsonl (length: number of tokens) or items.tsv (number of codes of sid, 1 without
// any). Throws ImportError, also for a duplicate id.
PlanCatalog read_plan_catalog(const std::filesystem::path& folder);

struct PlanHistories {
  // each is a run of consecutive items of one user, at most as long as the candidates of a request
  placement::Requests requests;
  double mean_events = 0;  // per user
};
// Reads the histories with read_users; empty if the folder has none. Throws ImportError for an item
// that is not in the catalog.
PlanHistories read_plan_histories(const std::filesystem::path& folder, const PlanCatalog& catalog,
                                  std::size_t candidates);

// Reads the candidates of a trace's requests. Throws ImportError, with the line, for an item that is not in
// the catalog, and for a trace without candidates.
placement::Requests read_plan_trace(const std::filesystem::path& trace, const PlanCatalog& catalog);

// Reads lines of item, tab, count, plain or gzip. The first line may name the columns. Items
// without a line have count 0. Throws ImportError for an unknown item, a duplicate item or an
// invalid count.
std::vector<std::uint64_t> read_popularity(const std::filesystem::path& file, const PlanCatalog& catalog);

// Counts each occurrence of an item in the requests as one use.
std::vector<std::uint64_t> count_uses(const placement::Requests& requests, std::size_t items);

// Random partition of the requests: those that the plan is made with, and two halves of the
// held-out ones.
struct SplitRequests {
  placement::Requests plan, predict, simulate;
};
SplitRequests split_requests(const placement::Requests& requests, double held_out);

}  // namespace troupe::deploy
