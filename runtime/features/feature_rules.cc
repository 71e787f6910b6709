// Holds the rules that the RocksDB and the Redis feature store share, so that both refuse, resolve
// histories and report failed imports alike.
#include "runtime/features/feature_rules.h"

#include <span>
#include <utility>

namespace troupe {
namespace {

Refusal wrong_version(const char* code, const char* where, const std::string& asked,
                      const std::string& present) {
  return {RefusalKind::unavailable, code, "version \"" + asked + "\" is not served here", where,
          "\"" + present + "\""};
}

}  // namespace

Refusal wrong_feature_job() {
  return {RefusalKind::internal, "wrong_port", "this job is not about features", "feature port",
          "FindFeatures, Write, Read, ListItems"};
}

// Ids of users are those of a tenant: the same id of another tenant is another user.
Refusal unknown_user(const std::string& tenant) {
  if (tenant.empty())
    return {RefusalKind::not_found, "unknown_user", "no such user", "user",
            "the id of a user that was put before"};
  return {RefusalKind::not_found, "unknown_user", "tenant \"" + tenant + "\" has no such user", "user",
          "the id of a user that was put before as this tenant"};
}

Refusal unknown_item(const std::string& item) {
  return {RefusalKind::not_found, "unknown_item", "item \"" + item + "\" is not in the catalog", "item",
          "the id of an item that was put before"};
}

Refusal catalog_full(const FeatureLimits& limits) {
  return {RefusalKind::unprocessable, "catalog_full", "the catalog is full", "item",
          "at most " + std::to_string(limits.items_max) + " items"};
}

std::optional<Refusal> reject_if_wrong_model(const FindFeatures& wanted, const std::string& model) {
  if (wanted.model_version.empty() || model.empty() || wanted.model_version == model) return {};
  return wrong_version("wrong_model", "model_version", wanted.model_version, model);
}

JobResult find_items(const FindFeatures& wanted, ProfilePointer user, CatalogPointer catalog,
                     const FeatureLimits& limits) {
  if (!wanted.catalog_version.empty() && wanted.catalog_version != catalog->version())
    return wrong_version("wrong_catalog", "catalog_version", wanted.catalog_version, catalog->version());
  if (wanted.history) {
    auto profile = profile_of_given(*wanted.history, limits, *catalog);
    if (auto* refusal = std::get_if<Refusal>(&profile)) return std::move(*refusal);
    user = std::get<ProfilePointer>(std::move(profile));
  }
  std::vector<ItemNumber> items = catalog->find_all(wanted.items);
  if (wanted.paths) catalog->paths();
  return Features{std::move(user), std::move(catalog), std::move(items)};
}

ItemList list_items(const ListItems& wanted, CatalogPointer catalog) {
  ItemList page;
  ItemNumber number = catalog->next(wanted.from);
  for (; number != no_item && page.items.size() < wanted.count; number = catalog->next(number + 1))
    page.items.push_back(number);
  page.last = number == no_item;
  page.catalog = std::move(catalog);
  return page;
}

namespace {

// Fills the profile of a PutUser or GivenHistory, whose members are the same.
template <class Events>
std::optional<Refusal> fill_profile(const Events& events, const Catalog& catalog, Profile& profile) {
  profile.tokens = events.tokens;
  profile.events.assign(events.tokens.size(), 1);
  profile.features = events.features;
  for (std::size_t i = 0; i < events.history.size(); ++i) {
    const ItemNumber number = catalog.find(events.history[i]);
    if (number == no_item) {
      Refusal refusal = unknown_item(events.history[i]);
      refusal.kind = RefusalKind::unprocessable;
      refusal.where = "history[" + std::to_string(i) + "]";
      return refusal;
    }
    const std::span<const Token> tokens = catalog.item(number).tokens;
    profile.tokens.insert(profile.tokens.end(), tokens.begin(), tokens.end());
    profile.events.push_back(static_cast<std::uint32_t>(tokens.size()));
  }
  return {};
}

}  // namespace

std::optional<Refusal> resolve(const PutUser& put, const FeatureLimits& limits, const Catalog& catalog,
                               StoredProfile& stored, bool checked) {
  if (!checked)
    if (auto fault = validate_row(put, limits)) return fault;
  stored.names = {put.history, put.event_ids};
  return fill_profile(put, catalog, stored.profile);
}

std::variant<ProfilePointer, Refusal> profile_of_given(const GivenHistory& given, const FeatureLimits& limits,
                                                       const Catalog& catalog) {
  if (auto fault = validate_history(given, limits)) return *std::move(fault);
  auto profile = std::make_shared<Profile>();
  if (auto fault = fill_profile(given, catalog, *profile)) return *std::move(fault);
  return ProfilePointer(std::move(profile));
}

void refuse_row(const Import& rows, const char* kind, std::size_t row, const Refusal& refusal) {
  const std::string where =
      rows.where ? rows.where(kind, row) : std::string(kind) + " row " + std::to_string(row + 1);
  const std::string field = refusal.what.starts_with(refusal.where) ? "" : refusal.where + ": ";
  throw StoreError(StoreFault::bad_row,
                   where + ": " + field + refusal.what + "; expected " + refusal.expected);
}

void stop_import(const char* kind, std::size_t rows_done, const StoreFailure& failure) {
  throw StoreError(failure.fault, std::string(kind) + " import: " + failure.why +
                                      "; expected to store all rows, stored " + std::to_string(rows_done));
}

}  // namespace troupe
