#pragma once
// Readable history of a run: one line per delivered message with its fields. Long lists are shortened,
// block names cut.
#include <functional>
#include <string>

#include "sim/host/sim_host.h"

namespace troupe::sim {

std::string time_text(Instant at);  // "  1.203456s"
std::string text_of(const Message& message);
void print_history(SimHost& host, std::function<void(const std::string& line)> line);

}  // namespace troupe::sim
