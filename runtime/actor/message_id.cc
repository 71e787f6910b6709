// Reads or sets the request id of a message of any kind; kinds without an id are left alone.
#include "runtime/actor/message_id.h"

namespace troupe {

RequestId id_of(const Message& message) {
  return std::visit(
      [](const auto& m) -> RequestId {
        if constexpr (requires { m.id; }) return m.id;
        return 0;
      },
      message);
}

void set_id(Message& message, RequestId id) {
  std::visit(
      [id](auto& m) {
        if constexpr (requires { m.id; }) m.id = id;
      },
      message);
}

}  // namespace troupe
