#pragma once
// What both feature stores say and do alike: refusals, how a history becomes a profile, what an import
// reports.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/actor/ports.h"
#include "runtime/store/store.h"
#include "runtime/store/store_rows.h"

namespace troupe {

std::string catalog_version_text(std::uint64_t version);  // "c7"

Refusal wrong_feature_job();
Refusal unknown_user();
Refusal unknown_item();
Refusal catalog_full(const FeatureLimits& limits);

// Absent if they may be answered. `model`: the one that the port names blocks for; "": whatever is asked for.
std::optional<Refusal> check_model(const FindFeatures& wanted, const std::string& model);
std::optional<Refusal> check_catalog(const FindFeatures& wanted, const std::string& present);

// Fills tokens and events of `profile`. `tokens_of` gives an item's tokens, null if there is no such item,
// and is asked for each event in order.
using TokensOf = std::function<const std::vector<Token>*(const std::string& item)>;
std::optional<Refusal> resolve(const PutUser& put, const FeatureLimits& limits, const TokensOf& tokens_of,
                               Profile& profile);

[[noreturn]] void refuse_row(const char* kind, std::size_t row, const Refusal& refusal);
[[noreturn]] void stop_import(const char* kind, std::size_t rows_done, const StoreFailure& failure);

}  // namespace troupe
