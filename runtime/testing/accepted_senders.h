#pragma once
// Test helper: for every message type, lists the sender roles that a core accepts. Each message,
// with default values, is sent to a fresh core by every role of its own node and of another node.
// Messages that are not counted as protocol errors are listed, so that every change of a sender
// check shows.
#include <string>
#include <string_view>
#include <variant>

#include "runtime/testing/core_probe.h"

namespace troupe {
namespace core_heard {

inline constexpr std::string_view role_names[] = {"door",      "router",           "cache_meta",
                                                  "kv_worker", "inference_worker", "allocator"};

template <class T>
std::string type_name() {
  // "… [with T = troupe::Heartbeat; …" or "… [T = troupe::Heartbeat]"
  const std::string_view text = __PRETTY_FUNCTION__;
  const std::size_t end = text.find_first_of(";]", text.find("T = "));
  return std::string(text.substr(0, end).substr(text.rfind(':', end) + 1));
}

inline bool is_refused(const Effects& effects) {
  for (const auto& effect : effects.list)
    if (const auto* count = std::get_if<Effects::Count>(&effect))
      if (count->metric == Metric::protocol_errors) return true;
  return false;
}

}  // namespace core_heard

// `receive(Address, Message)` sends this message to a fresh core of node `own`, and returns the
// effects. Returns a line per accepted message: "Heartbeat: everybody", "SetSplit: allocator here".
// Senders of another node are marked "elsewhere".
template <class Receive, std::size_t index = 0>
std::string accepted_senders(NodeId own, const Receive& receive) {
  if constexpr (index < std::variant_size_v<AnyMessage>) {
    using T = std::variant_alternative_t<index, AnyMessage>;
    std::string heard;
    int senders = 0;
    for (std::uint8_t role = 0; role < std::size(core_heard::role_names); ++role)
      for (const NodeId node : {own, own + 1}) {
        if (core_heard::is_refused(receive(Address{node, static_cast<Role>(role)}, Message(T{})))) continue;
        ++senders;
        heard.append(heard.empty() ? "" : ", ")
            .append(core_heard::role_names[role])
            .append(node == own ? " here" : " elsewhere");
      }
    if (senders == 2 * std::size(core_heard::role_names)) heard = "everybody";
    const std::string line = senders == 0 ? "" : core_heard::type_name<T>() + ": " + heard + "\n";
    return line + accepted_senders<Receive, index + 1>(own, receive);
  } else {
    return "";
  }
}

}  // namespace troupe
