#pragma once
// The history of a run for people: one line for each message that is delivered, with its fields; long lists
// are shortened, names of blocks cut.
#include <functional>
#include <string>

#include "sim/host/sim_host.h"

namespace troupe::sim {

std::string time_text(Instant at);  // "  1.203456s"
std::string text_of(const Message& message);
void tell_history(SimHost& host, std::function<void(const std::string& line)> line);

}  // namespace troupe::sim
