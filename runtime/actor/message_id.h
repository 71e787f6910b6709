#pragma once
// The id of a message, whatever its kind.
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe {

inline RequestId id_of(const Message& message) {  // 0: it has none
  return std::visit(
      [](const auto& m) -> RequestId {
        if constexpr (requires { m.id; }) return m.id;
        return 0;
      },
      message);
}

inline void set_id(Message& message, RequestId id) {
  std::visit(
      [id](auto& m) {
        if constexpr (requires { m.id; }) m.id = id;
      },
      message);
}

}  // namespace troupe
