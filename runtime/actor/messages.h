#pragma once
// Messages between actors, as plain structs. Each is declared once, in a Cap'n Proto schema
// (runtime/wire/schema/, one file per conversation), with who sends it and what answers. The build
// makes the structs from the schemas: build/runtime/generated/message_structs.h has them, with the
// schemas' comments. Durations cross hosts, absolute times never. Messages never carry tensors: they
// name pages by id and generation.
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/base/plan.h"
#include "runtime/actor/arrangement.h"
#include "runtime/actor/identity.h"
#include "runtime/actor/refusal.h"
#include "runtime/actor/request_options.h"
#include "runtime/actor/trace_context.h"

namespace troupe {

using kernels::Beam, kernels::Plan, kernels::Readout, kernels::Repair, kernels::Search,
    kernels::VisibleSegments, kernels::Segment, kernels::SegmentKind, kernels::Token, kernels::Tokens;

}  // namespace troupe

#include "generated/message_structs.h"

namespace troupe {

inline constexpr std::uint32_t row_shards = 128;  // maximum number of shards per embedding table

// A type of its own instead of an alias of the variant: the code that copies, moves, compares and
// destroys so many kinds is compiled once, in messages.cc, and not in every file that forwards a
// message.
struct Message : AnyMessage {
  template <class Kind>
  requires(!std::derived_from<std::remove_cvref_t<Kind>, AnyMessage> &&
           std::constructible_from<AnyMessage, Kind>) Message(Kind&& kind)
      : AnyMessage(std::forward<Kind>(kind)) {}
  Message();
  Message(const Message&);
  Message(Message&&) noexcept;
  Message& operator=(const Message&);
  Message& operator=(Message&&) noexcept;
  ~Message();
  bool operator==(const Message&) const;
};

}  // namespace troupe
