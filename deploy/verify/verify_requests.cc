// Reads the requests that `troupe verify` computes, and turns their histories and candidates into the
// model's tokens.
#include "deploy/verify/verify_requests.h"

#include <algorithm>
#include <utility>

#include "deploy/data/json_row.h"
#include "deploy/data/text_file.h"

namespace troupe::deploy {
namespace {

constexpr std::size_t made_candidates = 20;  // of a request that is made of users and items

void check_feature(const EventFeature& expected, const Feature& feature, std::size_t events,
                   const std::string& who) {
  const auto fail = [&](const std::string& what, const std::string& wanted) {
    throw ImportError(who + ": " + expected.name + " " + what + "; expected " + wanted);
  };
  if (feature.values.size() != events)
    fail("has " + std::to_string(feature.values.size()) + " numbers",
         std::to_string(events) + ", one for each event of the history");
  for (const std::int64_t value : feature.values)
    if (value < expected.least || value > expected.most)
      fail("has " + std::to_string(value),
           std::to_string(expected.least) + " to " + std::to_string(expected.most));
  if (expected.ascending && !std::ranges::is_sorted(feature.values))
    fail("decreases", "the oldest event first");
}

// Returns candidates of the catalog for request number `number`, spread evenly over it.
std::vector<Item> made_items(const std::vector<Item>& catalog, std::size_t number) {
  std::vector<Item> items;
  const std::size_t count = std::min(made_candidates, catalog.size());
  for (std::size_t i = 0; i < count; ++i)
    items.push_back(catalog[(number * 7 + i * catalog.size() / count) % catalog.size()]);
  return items;
}

// Position of a row of an evaluation file. The row may give a history, which may be empty; a table's always
// does.
struct RowOrigin {
  std::string where;  // "requests.jsonl:7"
  bool has_history = true;
};

// Returns the origins of the rows that read_evaluation returns for a file that it accepts.
std::vector<RowOrigin> origins_of(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const bool is_lines = name.find(".jsonl") != std::string::npos;
  TextFile file(path);
  std::vector<RowOrigin> origins;
  std::string text;
  if (!is_lines) file.next(text);  // header
  while (file.next(text))
    if (is_lines ? text.find_first_not_of(" \t\r") != text.npos : !text.empty())
      origins.push_back({name + ":" + std::to_string(file.line_number()),
                         !is_lines || parse_row(file, text).contains("history")});
  return origins;
}

void keep_events(EvaluationRow& row, std::size_t count) {
  row.history.resize(count);
  for (Feature& feature : row.features) feature.values.resize(std::min(count, feature.values.size()));
}

// Cuts a history that goes beyond the request: after the request's time, and before the last event of the
// true item. Returns true if it was cut.
bool cut_at_request(EvaluationRow& row) {
  std::size_t count = row.history.size();
  const auto times = std::ranges::find(row.features, "timestamps", &Feature::name);
  if (times != row.features.end() && row.request_timestamp > 0)
    while (count > 0 && times->values.at(count - 1) > row.request_timestamp) --count;
  const std::string& truth = row.candidates.at(row.true_index);
  for (std::size_t i = count; i-- > 0;)
    if (row.history[i] == truth) {
      count = i;
      break;
    }
  const bool is_cut = count < row.history.size();
  keep_events(row, count);
  return is_cut;
}

void check_sizes(const EvaluationRow& row, const std::string& who) {
  for (const Feature& feature : row.features)
    if (feature.values.size() != row.history.size())
      throw ImportError(who + ": " + feature.name + " has " + std::to_string(feature.values.size()) +
                        " numbers; expected " + std::to_string(row.history.size()) +
                        ", one for each event of the history");
}

void reject_unknown(const VerifiedData& data, const EvaluationRow& row, const std::string& who) {
  for (const std::vector<std::string>* list : {&row.history, &row.candidates})
    for (const std::string& id : *list)
      if (!data.has(id))
        throw ImportError(who + " has item " + id.substr(0, 60) +
                          "; expected an item of the catalog, or --skip-unknown");
}

// Leaves out the items that the catalog lacks, with the features of their events. Returns their number.
std::size_t drop_unknown(const VerifiedData& data, EvaluationRow& row) {
  std::size_t kept = 0, unknown = 0;
  for (std::size_t i = 0; i < row.history.size(); ++i) {
    if (!data.has(row.history[i])) {
      ++unknown;
      continue;
    }
    for (Feature& feature : row.features) feature.values.at(kept) = feature.values.at(i);
    if (kept != i) row.history[kept] = std::move(row.history[i]);
    ++kept;
  }
  keep_events(row, kept);
  return unknown + std::erase_if(row.candidates, [&](const std::string& id) { return !data.has(id); });
}

// Makes requests of the rows of an evaluation file.
class RowReader {
 public:
  RowReader(const VerifiedData& data, const RequestChoice& choice, VerifiedRequests& requests)
      : data_(data), choice_(choice), requests_(requests) {}

  void read() {
    std::vector<EvaluationRow> rows = read_evaluation(requests_.file);
    const std::vector<RowOrigin> origins = origins_of(requests_.file);
    if (origins.size() != rows.size())
      throw ImportError(requests_.file.string() + ": changed while it was read; expected a file that stays");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (choice_.count > 0 && requests_.list.size() >= choice_.count) break;
      add(std::move(rows[i]), origins[i]);
    }
  }

 private:
  void add(EvaluationRow row, const RowOrigin& origin) {
    const std::string name = origin.where + ": " + (row.user.empty() ? "a visitor" : "user " + row.user);
    if (!origin.has_history && !take_history(row, name)) {
      ++requests_.left_out.no_profile;
      return;
    }
    check_sizes(row, name);
    const std::string truth = row.candidates.at(row.true_index);
    if (origin.has_history)
      requests_.left_out.repeated_items += std::ranges::find(row.history, truth) != row.history.end();
    else
      requests_.left_out.cut_histories += cut_at_request(row);
    if (!choice_.skip_unknown) {
      reject_unknown(data_, row, name);
    } else {
      requests_.left_out.unknown_items += drop_unknown(data_, row);
      if (!data_.has(truth)) {
        ++requests_.left_out.unknown_requests;
        return;
      }
      row.true_index =
          static_cast<std::size_t>(std::ranges::find(row.candidates, truth) - row.candidates.begin());
    }
    requests_.list.push_back({name, data_.profile(row.history, row.features, name),
                              data_.items(row.candidates, name), row.request_timestamp, row.scenario,
                              row.true_index});
  }

  // Gives a row the history of the data folder. Returns false if the folder does not have the user.
  bool take_history(EvaluationRow& row, const std::string& name) {
    if (!row.features.empty())
      throw ImportError(name + " has " + row.features.front().name +
                        " without a history; expected both, or neither to take those of the data folder");
    if (!users_) {
      users_.emplace();
      for (PutUser& user : data_.users(HistoryPart::before_test)) {
        const std::string id = user.user;
        users_->emplace(id, std::move(user));
      }
    }
    const auto user = users_->find(row.user);
    if (user == users_->end()) return false;
    row.history = user->second.history;
    row.features = user->second.features;
    return true;
  }

  const VerifiedData& data_;
  const RequestChoice& choice_;
  VerifiedRequests& requests_;
  std::optional<std::map<std::string, PutUser>> users_;  // read when a row needs them
};

std::filesystem::path evaluation_of(const std::filesystem::path& model, const std::filesystem::path& data) {
  if (std::filesystem::exists(model / "eval.tsv.gz")) return model / "eval.tsv.gz";
  for (const char* name : {"requests.jsonl", "requests.jsonl.gz", "eval.tsv", "eval.tsv.gz"})
    if (std::filesystem::exists(data / name)) return data / name;
  return {};
}

}  // namespace

VerifiedData::VerifiedData(const std::filesystem::path& folder, const ServedModel& model)
    : model_(model), folder_(folder) {
  DataRows<PutItem> rows = read_item_rows(folder, {.text = model.text()});
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    PutItem& row = rows.rows[i];
    if (!by_id_.emplace(row.item, i).second)
      throw ImportError(rows.where(i) + ": item " + row.item + " is there twice; expected each item once");
    items_.push_back({std::move(row.item), std::move(row.title), std::move(row.tokens), row.identifier, {}});
  }
  if (items_.empty()) throw ImportError(rows.file.string() + ": has no items; expected a catalog");
}

const Item& VerifiedData::item(const std::string& id, const std::string& who) const {
  const auto at = by_id_.find(id);
  if (at == by_id_.end())
    throw ImportError(who + " has item " + id.substr(0, 60) + "; expected an item of the catalog");
  return items_[at->second];
}

std::vector<Item> VerifiedData::items(const std::vector<std::string>& ids, const std::string& who) const {
  std::vector<Item> found;
  found.reserve(ids.size());
  for (const std::string& id : ids) found.push_back(item(id, who));
  return found;
}

Profile VerifiedData::profile(const std::vector<std::string>& history, const std::vector<Feature>& features,
                              const std::string& who) const {
  Profile profile;
  for (const std::string& id : history) {
    const std::vector<Token>& tokens = item(id, who).tokens;
    profile.tokens.insert(profile.tokens.end(), tokens.begin(), tokens.end());
    profile.events.push_back(static_cast<std::uint32_t>(tokens.size()));
  }
  for (const EventFeature& expected : model_.facts.event_features) {
    const auto at = std::ranges::find(features, expected.name, &Feature::name);
    if (at == features.end() && history.empty()) {
      profile.features.push_back({expected.name, {}});
      continue;
    }
    if (at == features.end())
      throw ImportError(who + " has no " + expected.name +
                        " of events; expected one for each event, because the model reads them");
    check_feature(expected, *at, history.size(), who);
    profile.features.push_back(*at);
  }
  return profile;
}

Profile VerifiedData::profile(const PutUser& user) const {
  return profile(user.history, user.features, "user " + user.user);
}

std::vector<std::string> VerifiedData::event_features() const {
  std::vector<std::string> names;
  for (const EventFeature& feature : model_.facts.event_features) names.push_back(feature.name);
  return names;
}

std::vector<PutUser> VerifiedData::users(HistoryPart part) const {
  RowReading reading;
  reading.limits.event_features = event_features();
  return read_user_rows(folder_, part, reading).rows;
}

VerifiedRequests read_verified_requests(const VerifiedData& data, const RequestChoice& choice) {
  VerifiedRequests requests;
  requests.file = choice.evaluation.empty() ? evaluation_of(choice.model, data.folder()) : choice.evaluation;
  if (!requests.file.empty()) {
    RowReader(data, choice, requests).read();
  } else {
    for (PutUser& user : data.users(HistoryPart::before_test)) {
      if (choice.count > 0 && requests.list.size() >= choice.count) break;
      EvaluationRow row;
      row.history = std::move(user.history);
      row.features = std::move(user.features);
      const std::string name = "user " + user.user;
      check_sizes(row, name);
      if (choice.skip_unknown)
        requests.left_out.unknown_items += drop_unknown(data, row);
      else
        reject_unknown(data, row, name);
      requests.list.push_back({name,
                               data.profile(row.history, row.features, name),
                               made_items(data.items(), requests.list.size()),
                               0,
                               0,
                               {}});
    }
  }
  if (requests.list.empty())
    throw ImportError(
        (requests.file.empty() ? data.folder() : requests.file).string() +
        ": has no requests that can be computed; expected users with histories, or events of an "
        "evaluation file with users of the data folder and items of its catalog");
  return requests;
}

}  // namespace troupe::deploy
