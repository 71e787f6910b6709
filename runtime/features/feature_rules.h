#pragma once
// What both feature stores say and do alike: refusals, how a history becomes a profile, what an import
// reports.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/actor/ports.h"
#include "runtime/features/feature_store.h"
#include "runtime/store/store.h"
#include "runtime/store/store_rows.h"

namespace troupe {

Refusal wrong_feature_job();
Refusal unknown_user();
Refusal unknown_item(const std::string& item);
Refusal catalog_full(const FeatureLimits& limits);

// Absent if it may be answered. `model`: the one that the port names blocks for; "": whatever is asked for.
std::optional<Refusal> check_model(const FindFeatures& wanted, const std::string& model);

// Fills all of `stored` but its version, tokens of its history as `catalog` has them. Events that are
// appended, whose order is not theirs alone, are checked by their caller.
std::optional<Refusal> resolve(const PutUser& put, const FeatureLimits& limits, const Catalog& catalog,
                               StoredProfile& stored, bool checked = false);

// What a snapshot answers.
JobResult find_items(const FindFeatures& wanted, ProfilePointer user, CatalogPointer catalog);
ItemList list_items(const ListItems& wanted, CatalogPointer catalog);

[[noreturn]] void refuse_row(const Import& rows, const char* kind, std::size_t row, const Refusal& refusal);
[[noreturn]] void stop_import(const char* kind, std::size_t rows_done, const StoreFailure& failure);

}  // namespace troupe
