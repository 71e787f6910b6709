#pragma once
// Events as they come over HTTP, one object each:
// {"events":[{"id":"click-17","item":"50","timestamp":881250949},…]}. Each has its item, or `tokens`
// (numbers, or words of the vocabulary) instead; an id of its own by which a repeated one is known; and what
// the model knows of events, each number under the name of its feature without the last s. All or none have
// items. Pure.
//
// Refusals are those of json.h, with `where` as "events[3].item"; 413 too_many_events, too_many_values; 422
// unknown_word.
#include <cstdint>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"
#include "server/formats/model_text.h"

namespace troupe::server {

// Without user and tenant, but for a `user` in the body. `events_max`: router.history_events_max.
std::variant<AppendEvents, Refusal> read_events(std::string_view body, std::uint32_t events_max,
                                                const ModelText& text);

}  // namespace troupe::server
