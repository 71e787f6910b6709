#pragma once
// Rules that both feature stores (RocksDB, Redis) share, so that they answer alike: refusals, how a
// history becomes a profile, and errors of imports.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/actor/ports.h"
#include "runtime/features/feature_store.h"
#include "runtime/store/store.h"
#include "runtime/store/store_rows.h"

namespace troupe {

Refusal wrong_feature_job();
Refusal unknown_user(const std::string& tenant);
Refusal unknown_item(const std::string& item);
Refusal catalog_full(const FeatureLimits& limits);

// Rejects a request for another model version. `model`: the version for which the port names
// blocks; "" accepts any.
std::optional<Refusal> reject_if_wrong_model(const FindFeatures& wanted, const std::string& model);

// Fills everything in `stored` except its version, with the history's tokens from `catalog`.
// `checked`: the caller has validated the fields, as for appended events.
std::optional<Refusal> resolve(const PutUser& put, const FeatureLimits& limits, const Catalog& catalog,
                               StoredProfile& stored, bool checked = false);

// Return the answer from one snapshot of the catalog. A history in `wanted` becomes the profile.
JobResult find_items(const FindFeatures& wanted, ProfilePointer user, CatalogPointer catalog,
                     const FeatureLimits& limits);
ItemList list_items(const ListItems& wanted, CatalogPointer catalog);

// Returns the profile that a PutUser of this history would give, or why it may not be put.
std::variant<ProfilePointer, Refusal> profile_of_given(const GivenHistory& given, const FeatureLimits& limits,
                                                       const Catalog& catalog);

[[noreturn]] void refuse_row(const Import& rows, const char* kind, std::size_t row, const Refusal& refusal);
[[noreturn]] void stop_import(const char* kind, std::size_t rows_done, const StoreFailure& failure);

}  // namespace troupe
