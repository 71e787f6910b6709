// Reads what `troupe-lab plan` needs to place items: their ids and lengths, how often each is accessed,
// and which are requested together.
#include "deploy/lab/planning/plan_input.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "deploy/data/dataset.h"
#include "deploy/data/json_row.h"
#include "deploy/data/request_trace.h"
#include "kernels/base/hash.h"

namespace troupe::deploy {

namespace {

using placement::ItemNumber;

void add_item(PlanCatalog& catalog, const TextFile& file, std::string id, std::size_t tokens) {
  if (!catalog.numbers.emplace(id, static_cast<ItemNumber>(catalog.ids.size())).second)
    file.fail("item " + id.substr(0, 60) + " is there twice", "each item once");
  catalog.ids.push_back(std::move(id));
  catalog.tokens.push_back(static_cast<std::uint32_t>(std::max<std::size_t>(tokens, 1)));
}

PlanCatalog read_lines(const std::filesystem::path& path) {
  PlanCatalog catalog;
  TextFile file(path);
  std::string line;
  while (file.next(line)) {
    if (line.empty()) continue;
    try {
      const nlohmann::json item = parse_row(file, line);
      add_item(catalog, file, item.at("id").get<std::string>(), item.at("tokens").size());
    } catch (const nlohmann::json::exception& error) {
      fail_row(file, error, "one JSON object with id and tokens");
    }
  }
  return catalog;
}

PlanCatalog read_table(const std::filesystem::path& path) {
  PlanCatalog catalog;
  TsvFile tsv(path);
  const std::size_t id = tsv.column("item_id");
  const bool has_codes = tsv.has_column("sid");
  const std::size_t codes = has_codes ? tsv.column("sid") : 0;
  std::vector<std::string_view> fields;
  while (tsv.next(fields))
    add_item(catalog, tsv.file(), std::string(fields[id]), has_codes ? split(fields[codes], ',').size() : 1);
  return catalog;
}

}  // namespace

double PlanCatalog::mean_tokens() const {
  const double sum = std::accumulate(tokens.begin(), tokens.end(), 0.0);
  return sum / static_cast<double>(tokens.size());
}

PlanCatalog read_plan_catalog(const std::filesystem::path& folder) {
  for (const char* ending : {"", ".gz"}) {
    const std::filesystem::path lines = folder / (std::string("items.jsonl") + ending);
    const std::filesystem::path table = folder / (std::string("items.tsv") + ending);
    if (!std::filesystem::exists(lines) && !std::filesystem::exists(table)) continue;
    PlanCatalog catalog = std::filesystem::exists(lines) ? read_lines(lines) : read_table(table);
    if (catalog.ids.empty()) throw ImportError(folder.string() + ": the catalog is empty; expected items");
    return catalog;
  }
  throw ImportError(folder.string() +
                    ": there is no catalog; expected items.jsonl or items.tsv, plain or .gz");
}

PlanHistories read_plan_histories(const std::filesystem::path& folder, const PlanCatalog& catalog,
                                  std::size_t candidates) {
  PlanHistories all;
  const std::vector<PutUser> users = read_users(folder, HistoryPart::all);
  std::vector<ItemNumber> run;
  for (const PutUser& user : users) {
    for (const std::string& id : user.history) {
      const auto number = catalog.numbers.find(id);
      if (number == catalog.numbers.end())
        throw ImportError(folder.string() + ": user " + user.user.substr(0, 60) + " has item " +
                          id.substr(0, 60) + ", which is not in the catalog; expected items of the catalog");
      run.push_back(number->second);
      if (run.size() == candidates) all.requests.add(run), run.clear();
    }
    if (!run.empty()) all.requests.add(run), run.clear();
  }
  if (!users.empty())
    all.mean_events = static_cast<double>(all.requests.items.size()) / static_cast<double>(users.size());
  return all;
}

placement::Requests read_plan_trace(const std::filesystem::path& trace, const PlanCatalog& catalog) {
  placement::Requests requests;
  TraceReader reader(trace);
  std::vector<ItemNumber> candidates;
  for (TracedRequest request; reader.next(request);) {
    candidates.clear();
    for (const std::string& id : request.candidates) {
      const auto number = catalog.numbers.find(id);
      if (number == catalog.numbers.end())
        reader.fail("item " + id.substr(0, 60) + " is not in the catalog", "items of the catalog");
      candidates.push_back(number->second);
    }
    if (!candidates.empty()) requests.add(candidates);
  }
  if (requests.size() == 0) reader.fail("there are no candidates", "at least one request to rank candidates");
  return requests;
}

std::vector<std::uint64_t> read_popularity(const std::filesystem::path& path, const PlanCatalog& catalog) {
  std::vector<std::uint64_t> counts(catalog.ids.size());
  std::vector<bool> seen(counts.size());
  TextFile file(path);
  std::string line;
  while (file.next(line)) {
    if (line.empty() || (file.line_number() == 1 && line.ends_with("\tcount"))) continue;
    const std::vector<std::string_view> fields = split(line, '\t');
    if (fields.size() != 2) file.fail(std::to_string(fields.size()) + " columns", "item, tab, count");
    const std::string id(fields[0]);
    const auto number = catalog.numbers.find(id);
    if (number == catalog.numbers.end())
      file.fail("item " + id.substr(0, 60) + " is not in the catalog", "items of the catalog");
    if (seen[number->second]) file.fail("item " + id.substr(0, 60) + " is there twice", "each item once");
    seen[number->second] = true;
    counts[number->second] = parse_number(file, fields[1], "count", std::uint64_t{1} << 53);
  }
  return counts;
}

std::vector<std::uint64_t> count_uses(const placement::Requests& requests, std::size_t items) {
  std::vector<std::uint64_t> counts(items);
  for (const ItemNumber item : requests.items) ++counts[item];
  return counts;
}

SplitRequests split_requests(const placement::Requests& requests, double held_out) {
  SplitRequests all;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const double at = static_cast<double>(spread(i) >> 11) * 0x1p-53;
    placement::Requests& part = at >= held_out ? all.plan : at < held_out / 2 ? all.predict : all.simulate;
    part.add(requests.at(i));
  }
  return all;
}

}  // namespace troupe::deploy
