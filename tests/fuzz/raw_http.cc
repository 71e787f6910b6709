#include "tests/fuzz/raw_http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>

namespace troupe::fuzz {

namespace {

constexpr timeval timeout{60, 0};

struct Socket {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  ~Socket() {
    if (fd >= 0) close(fd);
  }
};

std::optional<std::size_t> number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Removes and returns the first line of `bytes`; nothing if there is no CRLF.
std::optional<std::string_view> take_line(std::string_view& bytes) {
  const std::size_t end = bytes.find("\r\n");
  if (end == bytes.npos) return std::nullopt;
  const std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(end + 2);
  return line;
}

bool is_status_line(std::string_view line) {
  return (line.starts_with("HTTP/1.1 ") || line.starts_with("HTTP/1.0 ")) && line.size() > 13 &&
         line[12] == ' ' && number(line.substr(9, 3));
}

// Removes one response from `bytes`; returns what is wrong with it, or "".
std::string take_response(std::string_view& bytes, bool is_head, Response& out) {
  const auto status_line = take_line(bytes);
  if (!status_line || !is_status_line(*status_line)) return "no status line";
  out.status = static_cast<unsigned>(*number(status_line->substr(9, 3)));
  std::optional<std::size_t> length;
  for (;;) {
    const auto line = take_line(bytes);
    if (!line) return "the header does not end";
    if (line->empty()) break;
    const std::size_t colon = line->find(": ");
    if (colon == line->npos) return "a header field without a colon";
    const std::string_view name = line->substr(0, colon), value = line->substr(colon + 2);
    if (name == "Content-Length" && length) return "two lengths";
    if (name == "Content-Length" && !(length = number(value))) return "a length that is no number";
    if (name == "Content-Type") out.type = value;
  }
  if (out.status < 200) return "";
  if (!length) return "no length";
  if (is_head) return "";
  if (*length > bytes.size()) return "the body is cut short";
  out.body = bytes.substr(0, *length);
  bytes.remove_prefix(*length);
  return "";
}

}  // namespace

std::string exchange(std::uint16_t port, std::string_view bytes) {
  const Socket client;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  setsockopt(client.fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  if (connect(client.fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    throw std::runtime_error("the door does not accept a connection");
  while (!bytes.empty()) {
    const ssize_t sent = send(client.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;  // the server has answered and closed
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  shutdown(client.fd, SHUT_WR);
  std::string received;
  char chunk[16 << 10];
  for (;;) {
    const ssize_t size = recv(client.fd, chunk, sizeof chunk, 0);
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) throw std::runtime_error("the door hangs");
    if (size <= 0) return received;
    received.append(chunk, static_cast<std::size_t>(size));
  }
}

Responses parse_responses(std::string_view bytes, bool first_is_head) {
  Responses responses;
  while (!bytes.empty()) {
    Response response;
    responses.fault = take_response(bytes, first_is_head && responses.list.empty(), response);
    if (!responses.fault.empty()) break;
    if (response.status >= 200) responses.list.push_back(std::move(response));
  }
  return responses;
}

}  // namespace troupe::fuzz
