// Writes the results of a request of many lines: one JSON line each, and a summary at the end.
#include "server/formats/bulk_results.h"

#include <variant>

namespace troupe::server {

std::string bulk_result(std::uint64_t line, unsigned status, std::string_view body) {
  constexpr std::size_t before_max = 64;  // of line and status
  std::string result;
  result.reserve(before_max + body.size());  // appending to a full string would double its memory
  result.append("{\"line\":").append(std::to_string(line));
  result.append(",\"status\":").append(std::to_string(status));
  if (body.size() > 2) result += ',';
  return result.append(body.substr(body.empty() ? 0 : 1)).append(body.empty() ? "}\n" : "\n");
}

std::string bulk_end(std::uint64_t lines, std::uint64_t failed) {
  return "{\"lines\":" + std::to_string(lines) + ",\"failed\":" + std::to_string(failed) + "}\n";
}

std::string subject_of(const Message& message) {
  if (const auto* put = std::get_if<PutUser>(&message)) return "user " + put->user;
  if (const auto* gone = std::get_if<DeleteUser>(&message)) return "user " + gone->user;
  if (const auto* events = std::get_if<AppendEvents>(&message)) return "user " + events->user;
  if (const auto* put = std::get_if<PutItem>(&message)) return "item " + put->item;
  if (const auto* gone = std::get_if<DeleteItem>(&message)) return "item " + gone->item;
  return "";
}

}  // namespace troupe::server
