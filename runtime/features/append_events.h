#pragma once
// What becomes of a profile when events are appended to it. Pure, so that both stores and the simulation do
// the same.
//
//   known already   an event whose id is among those that the profile keeps is passed over, whatever else it
//   says: a client that
//                   does not know whether its append was done repeats it
//   in order        where the model's events have times, a late one is put where it belongs, behind those of
//   the same time what fits       of the history the newest events: at most
//   FeatureLimits::history_events_max, and no more tokens than
//                   FeatureLimits::history_tokens_max
#include <cstdint>
#include <optional>
#include <variant>

#include "runtime/actor/catalog.h"
#include "runtime/actor/ports.h"
#include "runtime/store/store_rows.h"

namespace troupe {

struct Grown {
  StoredProfile stored;  // of the version before
  Written counts;        // as they are answered
};
// `before`: null if there is no such user. Refusals are those of a PutUser, of the event that is not known
// already.
std::variant<Grown, Refusal> append(const StoredProfile* before, const AppendEvents& events,
                                    const FeatureLimits& limits, const Catalog& catalog);

// What a write meets: the version that is there, 0 if none is. Absent: the condition is met.
std::optional<Refusal> find_unmet(const Condition& condition, std::uint64_t present);

// As it was put.
UserReply reply_of(std::string user, StoredProfile stored);
ItemReply reply_of(const ItemView& item, std::uint64_t version);

}  // namespace troupe
