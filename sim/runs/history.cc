// Prints the messages of a simulated run, one readable line each, for a person who looks into a
// failure.
#include "sim/runs/history.h"

#include <boost/pfr.hpp>
#include <cstdio>

#include "runtime/actor/block_name.h"
#include "runtime/host/host.h"

namespace troupe::sim {
namespace {

constexpr std::size_t shown_max = 4;

void write(std::string& out, const std::string& text) { out += '"' + text + '"'; }
void write(std::string& out, bool value) { out += value ? "yes" : "no"; }
void write(std::string& out, const BlockName& name) { out += to_hex(name).substr(0, 8); }
void write(std::string& out, const Tokens& tokens);
template <class T>
void write(std::string& out, const T& value);

template <class T>
void write(std::string& out, const std::optional<T>& value) {
  if (value) {
    write(out, *value);
  } else {
    out += '-';
  }
}
template <class List>
void write_list(std::string& out, const List& values) {
  out += '[';
  for (std::size_t i = 0; i < std::min(values.size(), shown_max); ++i) {
    if (i > 0) out += ' ';
    write(out, values[i]);
  }
  if (values.size() > shown_max) out += " … " + std::to_string(values.size());
  out += ']';
}
template <class T>
void write(std::string& out, const std::vector<T>& values) {
  write_list(out, values);
}
void write(std::string& out, const Tokens& tokens) { write_list(out, tokens); }
void write(std::string& out, const VisibleSegments& sees) { write_list(out, sees.ranges()); }
template <class T>
void write(std::string& out, const T& value) {
  if constexpr (std::is_enum_v<T>) {
    out += std::to_string(static_cast<int>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", static_cast<double>(value));
    out += text;
  } else if constexpr (std::is_integral_v<T>) {
    out += std::to_string(value);
  } else {
    out += '{';
    bool first = true;
    boost::pfr::for_each_field(value, [&](const auto& field) {
      if (!first) out += ' ';
      first = false;
      write(out, field);
    });
    out += '}';
  }
}

}  // namespace

std::string time_text(Instant at) {
  char text[32];
  std::snprintf(text, sizeof text, "%11.6fs", static_cast<double>(at.us) * 1e-6);
  return text;
}

std::string text_of(const Message& message) {
  std::string text = message_names[message.index()];
  std::visit([&](const auto& m) { write(text, m); }, message);
  return text;
}

void print_history(SimHost& host, std::function<void(const std::string& line)> line) {
  host.watch_deliveries(
      [line = std::move(line)](Instant at, Address from, Address to, const Message& message) {
        line(time_text(at) + "  " + name_of(from) + " → " + name_of(to) + "  " + text_of(message));
      });
}

}  // namespace troupe::sim
