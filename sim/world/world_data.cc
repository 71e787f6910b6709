// Provides the items and users of the simulated world, generated from a seed when asked for. Also
// keeps all later writes with their versions, so that judges can look up any earlier state.
#include "sim/world/world_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <numeric>

#include "kernels/base/check.h"
#include "kernels/base/hash.h"

namespace troupe::sim {
namespace {

enum Purpose : std::uint64_t { of_item = 1, of_absence, of_change, of_user, of_twin };

Refusal unknown_item(const std::string& id, std::size_t index) {
  return {RefusalKind::not_found, "unknown_item", "item \"" + id + "\" is not in the catalog",
          "history[" + std::to_string(index) + "]", "items of the catalog"};
}

double below(double normal) { return std::erfc(-normal / std::numbers::sqrt2) / 2; }  // Φ

// Mean of log-normal numbers with this median, cut at `most`.
double cut_mean(double median, double sigma, double most) {
  if (sigma <= 0) return std::min(median, most);
  const double cut = std::log(most / median) / sigma;
  return median * std::exp(sigma * sigma / 2) * below(cut - sigma) + most * (1 - below(cut));
}

// Returns the median of log-normal numbers whose mean, cut at `most`, is `mean`.
double median_of(double mean, double sigma, double most) {
  double low = mean * std::exp(-sigma * sigma / 2), high = low;
  while (cut_mean(high, sigma, most) < mean && high < most) high *= 2;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = (low + high) / 2;
    (cut_mean(middle, sigma, most) < mean ? low : high) = middle;
  }
  return high;
}

}  // namespace

WorldData::WorldData(WorldOptions options)
    : options_(std::move(options)),
      item_popularity_(options_.items, options_.item_exponent),
      user_popularity_(options_.users, options_.user_exponent) {
  if (options_.history_mean > 0)
    history_median_ = median_of(options_.history_mean, options_.history_sigma, options_.history_max);
  TROUPE_CHECK(!options_.catalogs.empty() && !options_.tenants.empty(),
               "a world must have a catalog and a tenant");
  TROUPE_CHECK(options_.item_tokens_min > 0 && options_.event_tokens_min > 0,
               "items and events must have tokens");
  if (!options_.catalog) return;
  TROUPE_CHECK(options_.catalog->size() == options_.items, "the number of items must be the catalog's");
  for (std::uint32_t i = 0; i < options_.items; ++i) catalog_numbers_.emplace((*options_.catalog)[i].id, i);
}

Token WorldData::rows() const { return std::max(options_.vocabulary, static_cast<Token>(options_.items)); }

// ---- catalog ----

std::optional<std::size_t> WorldData::find_catalog(std::string_view catalog) const {
  const auto at = std::find(options_.catalogs.begin(), options_.catalogs.end(), catalog);
  if (at == options_.catalogs.end()) return {};
  return static_cast<std::size_t>(at - options_.catalogs.begin());
}

void WorldData::set_present(std::string_view catalog) {
  const auto at = find_catalog(catalog);
  TROUPE_CHECK(at, "the catalog must be one of the world's");
  present_ = *at;
}

// Returns the number in an id such as "i12" or "u12" if it is written as item_id writes it.
std::optional<std::uint32_t> WorldData::number_of(std::string_view id, char letter,
                                                  std::uint32_t count) const {
  if (id.size() < 2 || id[0] != letter || (id[1] == '0' && id.size() > 2)) return {};
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(id.data() + 1, id.data() + id.size(), number);
  if (error != std::errc{} || end != id.data() + id.size() || number >= count) return {};
  return number;
}

std::vector<Token> WorldData::made_tokens(std::uint64_t key, std::uint32_t min, std::uint32_t max) const {
  std::vector<Token> tokens(min + key % (max - min + 1));
  for (Token& token : tokens)
    token = static_cast<Token>((key = spread(key)) % static_cast<std::uint64_t>(options_.vocabulary));
  return tokens;
}

std::optional<std::uint32_t> WorldData::made_number(std::string_view item) const {
  if (!options_.catalog) return number_of(item, 'i', options_.items);
  const auto at = catalog_numbers_.find(item);
  return at != catalog_numbers_.end() ? std::optional(at->second) : std::nullopt;
}

std::optional<std::uint64_t> WorldData::made_key(std::uint32_t number, std::size_t catalog) const {
  const std::uint64_t key = mix(options_.seed, of_item, number);
  if (to_unit(mix(key, of_absence, catalog)) < options_.absent) return {};
  std::size_t made = catalog;  // the last version that changed the item
  while (made > 0 && to_unit(mix(key, of_change, made)) >= options_.changed) --made;
  return mix(key, made);
}

std::optional<std::vector<Token>> WorldData::made_item_tokens(std::uint32_t number,
                                                              std::size_t catalog) const {
  if (options_.catalog) return (*options_.catalog)[number].tokens;
  const auto key = made_key(number, catalog);
  if (!key) return {};
  return made_tokens(*key, options_.item_tokens_min, options_.item_tokens_max);
}

std::optional<Item> WorldData::made_item(std::uint32_t number, std::size_t catalog) const {
  if (options_.catalog) return (*options_.catalog)[number];
  auto tokens = made_item_tokens(number, catalog);
  if (!tokens) return {};
  const std::string id = item_id(number);
  return Item{id, id, std::move(*tokens), static_cast<Token>(number), {}};
}

const WorldData::ItemChange* WorldData::change_of(std::string_view id, Edition edition) const {
  if (item_changes_.empty()) return nullptr;
  const auto at = item_changes_.find(id);
  if (at == item_changes_.end()) return nullptr;
  const ItemChange* last = nullptr;
  for (const ItemChange& change : at->second)
    if (change.edition <= edition) last = &change;
  return last;
}

std::optional<Item> WorldData::item_at(std::string_view id, std::size_t catalog, Edition edition) const {
  if (const ItemChange* change = change_of(id, edition)) {
    if (!change->put) return {};
    return Item{change->put->item, change->put->title, change->put->tokens, change->put->identifier, {}};
  }
  const auto number = made_number(id);
  return number ? made_item(*number, catalog) : std::nullopt;
}

bool WorldData::has_item(std::string_view id, std::size_t catalog) const {
  if (const ItemChange* change = change_of(id, edition_)) return change->put.has_value();
  const auto number = made_number(id);
  return number && (options_.catalog || made_key(*number, catalog));
}

std::optional<Item> WorldData::item(std::string_view id, std::string_view catalog) const {
  return item(id, catalog, edition_);
}

std::optional<Item> WorldData::item(std::string_view id, std::string_view catalog, Edition edition) const {
  const auto at = find_catalog(catalog);
  return at ? item_at(id, *at, edition) : std::nullopt;
}

bool WorldData::had_tokens(std::string_view id, std::string_view catalog,
                           std::span<const Token> tokens) const {
  const auto at = find_catalog(catalog);
  const auto number = made_number(id);
  const auto made = at && number ? made_item_tokens(*number, *at) : std::nullopt;
  if (made && std::ranges::equal(*made, tokens)) return true;
  const auto changes = item_changes_.find(id);
  return at && changes != item_changes_.end() &&
         std::ranges::any_of(changes->second, [&](const ItemChange& change) {
           return change.put && std::ranges::equal(change.put->tokens, tokens);
         });
}

std::optional<ItemNumber> WorldData::item_number(std::string_view id) const {
  if (const auto number = made_number(id)) return number;
  const auto at = added_.find(id);
  return at != added_.end() ? std::optional(at->second) : std::nullopt;
}

std::string WorldData::id_of(ItemNumber number) const {
  if (number >= options_.items) return added_ids_.at(number - options_.items);
  return options_.catalog ? (*options_.catalog)[number].id : item_id(number);
}

ItemNumber WorldData::item_numbers() const {
  return options_.items + static_cast<ItemNumber>(added_ids_.size());
}

// ---- users ----

bool WorldData::is_twin(std::uint64_t user) const {
  return to_unit(mix(options_.seed, of_twin, user)) < options_.twins;
}

std::uint64_t WorldData::profile_key(std::uint64_t user, std::string_view tenant) const {
  return mix(options_.seed, of_user, user, is_twin(user) ? 0 : hash_of(tenant));
}

// Returns a drawn history length in tokens: log-normal (the normal number by Box-Muller), cut to 1
// to history_max.
std::uint32_t WorldData::long_length(std::uint64_t key) const {
  const double normal =
      std::sqrt(-2 * std::log(to_unit(mix(key, 1)))) * std::cos(2 * std::numbers::pi * to_unit(mix(key, 2)));
  const double drawn = history_median_ * std::exp(options_.history_sigma * normal);
  return static_cast<std::uint32_t>(std::clamp(drawn, 1.0, static_cast<double>(options_.history_max)));
}

std::uint32_t WorldData::history_length(std::uint64_t user) const {
  return long_length(profile_key(user, ""));
}

Profile WorldData::long_profile(std::uint64_t key) const {
  const std::uint32_t length = long_length(key);
  Profile profile{.version = 1};
  if (options_.known_events > 0) return known_profile(key, length);
  profile.tokens = made_tokens(mix(key, 3), length, length);
  for (std::uint32_t left = length; left > 0; left -= profile.events.back())
    profile.events.push_back(std::min(left, options_.event_tokens_max));
  return profile;
}

// Returns a history of whole events, some of them drawn from those that all histories share. It has
// as many events as come nearest to the length, at least one.
Profile WorldData::known_profile(std::uint64_t key, std::uint32_t length) const {
  const std::uint32_t each = options_.event_tokens_max;
  Profile profile{.version = 1};
  for (std::uint32_t e = 0; e < std::max(1U, (length + each / 2) / each); ++e) {
    const std::uint64_t drawn = mix(key, 4, e);
    const bool known = to_unit(mix(drawn, 1)) < options_.known_share;
    const std::uint64_t event = known ? mix(options_.seed, of_user, ~(drawn % options_.known_events)) : drawn;
    const std::vector<Token> tokens = made_tokens(mix(event, 2), each, each);
    profile.tokens.insert(profile.tokens.end(), tokens.begin(), tokens.end());
    profile.events.push_back(each);
  }
  return profile;
}

std::optional<Profile> WorldData::made_profile(std::string_view tenant, std::string_view user) const {
  const auto number = number_of(user, 'u', options_.users);
  if (options_.catalog || !number ||
      std::find(options_.tenants.begin(), options_.tenants.end(), tenant) == options_.tenants.end())
    return {};
  const std::uint64_t key = profile_key(*number, tenant);
  if (options_.history_mean > 0) return long_profile(key);
  Profile profile{.version = 1};
  const std::uint64_t events = options_.events_min + key % (options_.events_max - options_.events_min + 1);
  for (std::uint64_t e = 0; e < events; ++e) {
    const auto tokens = made_tokens(mix(key, e), options_.event_tokens_min, options_.event_tokens_max);
    profile.tokens.insert(profile.tokens.end(), tokens.begin(), tokens.end());
    profile.events.push_back(static_cast<std::uint32_t>(tokens.size()));
  }
  return profile;
}

std::optional<Profile> WorldData::profile(std::string_view tenant, std::string_view user) const {
  if (!profile_changes_.empty())
    if (const auto at = profile_changes_.find({std::string(tenant), std::string(user)});
        at != profile_changes_.end())
      return profile_of(at->first, at->second.back());
  return made_profile(tenant, user);
}

std::optional<Profile> WorldData::profile(std::string_view tenant, std::string_view user,
                                          std::uint64_t version) const {
  if (version == 1) return made_profile(tenant, user);
  const auto at = profile_changes_.find({std::string(tenant), std::string(user)});
  if (at == profile_changes_.end()) return {};
  for (const ProfileChange& change : at->second)
    if (change.version == version) return profile_of(at->first, change);
  return {};
}

bool WorldData::was_absent(std::string_view tenant, std::string_view user, std::uint64_t since) const {
  if (since == 1 && !made_profile(tenant, user)) return true;
  const auto at = profile_changes_.find({std::string(tenant), std::string(user)});
  return at != profile_changes_.end() && std::ranges::any_of(at->second, [&](const ProfileChange& change) {
           return change.version >= since && change.deleted();
         });
}

std::uint64_t WorldData::profile_version(std::string_view tenant, std::string_view user) const {
  const auto at = profile_changes_.find({std::string(tenant), std::string(user)});
  return at == profile_changes_.end() ? 1 : at->second.back().version;
}

// ---- changes ----

std::variant<WriteResult, Refusal> WorldData::write(const Write& what) {
  return std::visit([&](const auto& one) { return apply(one); }, what.what);
}

WriteResult WorldData::change(const std::string& tenant, const std::string& user,
                              std::optional<Profile> profile) {
  const std::uint64_t version = ++profiles_written_;
  if (profile) profile->version = version;
  profile_changes_[{tenant, user}].push_back({version, std::move(profile)});
  return {version};
}

WriteResult WorldData::append(const std::string& tenant, const std::string& user,
                              const std::vector<std::string>& items) {
  std::vector<std::uint32_t>& history = grown_[{tenant, user}];
  for (const std::string& id : items) {
    const auto number = made_number(id);
    TROUPE_CHECK(number, "the item must be in the catalog");
    history.push_back(*number);
  }
  const WriteResult written = change(tenant, user, std::nullopt);
  ProfileChange& last = profile_changes_[{tenant, user}].back();
  last.grown = static_cast<std::uint32_t>(history.size());
  if (history.empty()) last.profile = Profile{.version = last.version};
  return written;
}

namespace {

std::int64_t feature_of(const EventFeature& feature, std::size_t event) {
  return feature.ascending ? static_cast<std::int64_t>(event) : std::max<std::int64_t>(feature.least, 0);
}

}  // namespace

std::optional<Profile> WorldData::profile_of(const UserKey& key, const ProfileChange& change) const {
  if (change.grown == 0) return change.profile;
  const std::vector<std::uint32_t>& history = grown_.at(key);
  Profile profile{.version = change.version};
  for (const EventFeature& feature : options_.event_features) profile.features.push_back({feature.name, {}});
  std::size_t from = change.grown - std::min<std::size_t>(change.grown, options_.history_events_max);
  for (; from < change.grown; ++from) {
    const auto item = made_item(history[from], 0);
    if (!item) continue;
    profile.tokens.insert(profile.tokens.end(), item->tokens.begin(), item->tokens.end());
    profile.events.push_back(static_cast<std::uint32_t>(item->tokens.size()));
    for (std::size_t f = 0; f < profile.features.size(); ++f)
      profile.features[f].values.push_back(feature_of(options_.event_features[f], from));
  }
  return profile;
}

std::variant<WriteResult, Refusal> WorldData::apply(const PutUser& put) {
  Profile profile;
  for (std::size_t i = 0; i < put.history.size(); ++i) {
    const auto item = item_at(put.history[i], present_, edition_);
    if (!item) return unknown_item(put.history[i], i);
    profile.tokens.insert(profile.tokens.end(), item->tokens.begin(), item->tokens.end());
    profile.events.push_back(static_cast<std::uint32_t>(item->tokens.size()));
  }
  if (put.history.empty()) {
    profile.tokens = put.tokens;
    profile.events.assign(put.tokens.size(), 1);
  }
  event_ids_.erase({put.tenant, put.user});
  return change(put.tenant, put.user, std::move(profile));
}

// Follows the rules of the real stores (runtime/features/append_events.h) for data without event features.
std::variant<WriteResult, Refusal> WorldData::apply(const AppendEvents& events) {
  const UserKey key{events.tenant, events.user};
  std::optional<Profile> before = profile(events.tenant, events.user);
  Profile grown = before.value_or(Profile{});
  std::set<std::string> known = before ? event_ids_[key] : std::set<std::string>();
  WriteResult counts;
  for (std::size_t i = 0; i < std::max(events.history.size(), events.tokens.size()); ++i) {
    if (!events.event_ids.empty() && !events.event_ids[i].empty() &&
        !known.insert(events.event_ids[i]).second) {
      ++counts.repeated;
      continue;
    }
    ++counts.appended;
    if (!events.history.empty()) {
      const auto item = item_at(events.history[i], present_, edition_);
      if (!item) return unknown_item(events.history[i], i);
      grown.tokens.insert(grown.tokens.end(), item->tokens.begin(), item->tokens.end());
      grown.events.push_back(static_cast<std::uint32_t>(item->tokens.size()));
    } else {
      grown.tokens.push_back(events.tokens[i]);
      grown.events.push_back(1);
    }
  }
  counts.events = static_cast<std::uint32_t>(grown.events.size());
  event_ids_[key] = std::move(known);
  counts.version = before && counts.appended == 0
                       ? profile_version(events.tenant, events.user)
                       : change(events.tenant, events.user, std::move(grown)).version;
  return counts;
}

JobResult WorldData::read(const Read& what) const {
  if (const auto* wanted = std::get_if<GetUser>(&what.what)) {
    auto found = profile(wanted->tenant, wanted->user);
    if (!found)
      return Refusal{RefusalKind::not_found, "unknown_user", "no such user", "user", "a user of the world"};
    return UserReply{.user = wanted->user,
                     .version = found->version,
                     .tokens = std::move(found->tokens),
                     .event_tokens = std::move(found->events)};
  }
  const auto& wanted = std::get<GetItem>(what.what);
  auto found = item(wanted.item, present());
  if (!found)
    return Refusal{RefusalKind::not_found, "unknown_item", "no such item", "item", "an item of the world"};
  return ItemReply{.item = wanted.item,
                   .title = std::move(found->title),
                   .tokens = std::move(found->tokens),
                   .identifier = found->identifier,
                   .version = edition_};
}

std::variant<WriteResult, Refusal> WorldData::apply(const DeleteUser& gone) {
  return change(gone.tenant, gone.user, std::nullopt);
}

std::variant<WriteResult, Refusal> WorldData::apply(const PutItem& put) {
  if (!item_number(put.item)) {
    added_[put.item] = item_numbers();
    added_ids_.push_back(put.item);
  }
  item_changes_[put.item].push_back({++edition_, put});
  return WriteResult{edition_};
}

std::variant<WriteResult, Refusal> WorldData::apply(const DeleteItem& gone) {
  item_changes_[gone.item].push_back({++edition_, std::nullopt});
  return WriteResult{edition_};
}

}  // namespace troupe::sim
