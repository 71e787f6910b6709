#pragma once
// Parses events over HTTP, one object each:
// {"events":[{"id":"click-17","item":"50","timestamp":881250949},…]}. Each event has its item, or
// `tokens` (numbers, or words of the vocabulary) instead. It may have an id, by which a repeated
// event is recognised. Model features are numbers, each under the feature's name without the final
// s. Either all events have items or none has. Pure.
//
// Refusals are those of json.h, with `where` as "events[3].item"; 413 too_many_events,
// too_many_values; 422 unknown_word.
#include <cstdint>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"
#include "server/formats/model_text.h"

namespace troupe::server {

// Fills no tenant, and the user only if the body names one. `events_max`:
// router.history_events_max.
std::variant<AppendEvents, Refusal> read_events(std::string_view body, std::uint32_t events_max,
                                                const ModelText& text);

}  // namespace troupe::server
