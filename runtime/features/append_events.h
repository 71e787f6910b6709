#pragma once
// Computes a user's profile after events are appended. Pure, so that both stores and the simulation
// give the same result.
//
// Repeats: an event whose id the profile already has is skipped, whatever else it says, because
// a client that does not know whether its append succeeded repeats it.
// Order: where the model's events have times, a late event is inserted in time order, after those
// of the same time.
// Limit: the newest FeatureLimits::history_events_max events are kept. The length of the served model
// removes nothing here; a request cuts its prompt when it reads the profile.
#include <cstdint>
#include <optional>
#include <variant>

#include "runtime/actor/catalog.h"
#include "runtime/actor/ports.h"
#include "runtime/store/store_rows.h"

namespace troupe {

struct AppendedProfile {
  StoredProfile stored;  // with the version before
  WriteResult counts;    // as answered to the client
};
// Appends events. `before`: null if there is no such user. Refusals are those of a PutUser and name
// the event in the client's numbering.
std::variant<AppendedProfile, Refusal> append(const StoredProfile* before, const AppendEvents& events,
                                              const FeatureLimits& limits, const Catalog& catalog);

// Returns the refusal of a write whose condition fails; nullopt if it holds. `present`: the stored
// version; 0 = none.
std::optional<Refusal> reject_if_unmet(const Condition& condition, std::uint64_t present);

// Return the user or item in the form in which a client puts it.
UserReply reply_of(std::string user, StoredProfile stored);
ItemReply reply_of(const ItemView& item, std::uint64_t version);

}  // namespace troupe
