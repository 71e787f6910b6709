// Reads the requests that `troupe verify` computes, and turns their histories and candidates into the
// model's tokens.
#include "deploy/verify/verify_requests.h"

#include <algorithm>
#include <utility>

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

std::filesystem::path evaluation_of(const std::filesystem::path& model, const std::filesystem::path& data) {
  if (std::filesystem::exists(model / "eval.tsv.gz")) return model / "eval.tsv.gz";
  for (const char* name : {"requests.jsonl", "requests.jsonl.gz", "eval.tsv", "eval.tsv.gz"})
    if (std::filesystem::exists(data / name)) return data / name;
  return {};
}

}  // namespace

VerifiedData::VerifiedData(const std::filesystem::path& folder, const ServedModel& model)
    : model_(model), folder_(folder) {
  const bool items_are_tokens = model.facts.items_are_tokens();
  DataRows<PutItem> rows = read_item_rows(
      folder, items_are_tokens ? names_of_items(model.facts) : model.vocabulary, model.tokenizer.get());
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
  return read_user_rows(folder_, part, event_features()).rows;
}

VerifiedRequests read_verified_requests(const VerifiedData& data, const std::filesystem::path& model,
                                        const std::filesystem::path& evaluation, std::size_t count) {
  VerifiedRequests requests{evaluation.empty() ? evaluation_of(model, data.folder()) : evaluation, {}};
  const auto is_full = [&] { return count > 0 && requests.list.size() >= count; };
  if (!requests.file.empty()) {
    for (const EvaluationRow& row : read_evaluation(requests.file, data.folder())) {
      if (is_full()) break;
      const std::string name = "user " + row.user;
      requests.list.push_back({name, data.profile(row.history, row.features, name),
                               data.items(row.candidates, name), row.request_timestamp, row.scenario,
                               row.true_index});
    }
  } else {
    for (const PutUser& user : data.users(HistoryPart::before_test)) {
      if (is_full()) break;
      requests.list.push_back({"user " + user.user,
                               data.profile(user),
                               made_items(data.items(), requests.list.size()),
                               0,
                               0,
                               {}});
    }
  }
  if (requests.list.empty())
    throw ImportError((requests.file.empty() ? data.folder() : requests.file).string() +
                      ": has no requests; expected users with histories, or events of an evaluation file");
  return requests;
}

}  // namespace troupe::deploy
