#include "tests/readers/endless.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <stdexcept>

namespace troupe::readers {
namespace {

constexpr std::size_t piece_bytes = 64 << 10, heard_max = 64 << 10;
constexpr int timeout_ms = 10'000;

std::string piece_of(const std::string& again) {
  std::string piece;
  while (piece.size() < piece_bytes) piece += again;
  return piece;
}

// Sends until the other side has closed or `hear` has stopped.
void say_all(int to, const Endless& what, const std::atomic<bool>& ended) {
  const std::string piece = piece_of(what.again);
  std::string_view left = what.beginning;
  for (std::uint64_t said = 0; said < bytes_max && !ended;) {
    if (left.empty()) left = piece;
    const ssize_t wrote = ::write(to, left.data(), left.size());
    if (wrote < 0 && (errno == EAGAIN || errno == EINTR)) {
      pollfd wait{to, POLLOUT, 0};
      poll(&wait, 1, 20);
      continue;
    }
    if (wrote <= 0) return;
    left.remove_prefix(static_cast<std::size_t>(wrote));
    said += static_cast<std::uint64_t>(wrote);
  }
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

sockaddr_un named(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.string().size() >= sizeof address.sun_path)
    throw std::runtime_error("a path too long for a socket");
  std::ranges::copy(path.string(), address.sun_path);
  return address;
}

template <class Address>
int connected(const Address& address) {
  const int made =
      socket(reinterpret_cast<const sockaddr*>(&address)->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("nobody listens");
  return made;
}

// Sends and receives at the same time, because the other side may never read.
std::string talk(int with, const Endless& what) {
  std::atomic<bool> ended = false;
  fcntl(with, F_SETFL, O_NONBLOCK);
  std::thread speaker([&] { say_all(with, what, ended); });
  std::string heard;
  std::array<char, 4096> buffer;
  for (pollfd wait{with, POLLIN, 0}; heard.size() < heard_max && poll(&wait, 1, timeout_ms) > 0;) {
    const ssize_t got = ::recv(with, buffer.data(), buffer.size(), 0);
    if (got <= 0) break;
    heard.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ended = true;
  speaker.join();
  close(with);
  return heard;
}

}  // namespace

EndlessFile::EndlessFile(const std::filesystem::path& path, Endless what) {
  std::signal(SIGPIPE, SIG_IGN);
  std::filesystem::remove(path);
  if (mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("no pipe can be made");
  thread_ = std::thread([this, path, what = std::move(what)] { serve(path, what); });
}

EndlessFile::~EndlessFile() {
  ended_ = true;
  thread_.join();
}

void EndlessFile::serve(const std::filesystem::path& path, const Endless& what) {
  while (!ended_) {
    const int pipe = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (pipe < 0) {  // there is no reader
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    say_all(pipe, what, ended_);
    close(pipe);
  }
}

void write_sparse(const std::filesystem::path& path, std::string_view beginning) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << beginning;
  std::filesystem::resize_file(path, terabyte);
}

EndlessServer::EndlessServer(Endless what) : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  std::signal(SIGPIPE, SIG_IGN);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 16) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no free port on loopback");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this, what = std::move(what)] { serve(what); });
}

EndlessServer::EndlessServer(Endless what, const std::filesystem::path& unix_socket)
    : listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  std::signal(SIGPIPE, SIG_IGN);
  const sockaddr_un address = named(unix_socket);
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener_, 16) != 0)
    throw std::runtime_error("no socket can be made");
  thread_ = std::thread([this, what = std::move(what)] { serve(what); });
}

EndlessServer::~EndlessServer() {
  ended_ = true;
  thread_.join();
  close(listener_);
}

void EndlessServer::serve(const Endless& what) {
  for (pollfd wait{listener_, POLLIN, 0}; !ended_;) {
    if (poll(&wait, 1, 5) <= 0) continue;
    const int asker = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (asker < 0) continue;
    pollfd question{asker, POLLIN, 0};
    poll(&question, 1, 1'000);
    say_all(asker, what, ended_);
    close(asker);
  }
}

std::string say_endlessly(std::uint16_t port, const Endless& what) {
  std::signal(SIGPIPE, SIG_IGN);
  return talk(connected(loopback(port)), what);
}

std::string say_endlessly(const std::filesystem::path& unix_socket, const Endless& what) {
  std::signal(SIGPIPE, SIG_IGN);
  return talk(connected(named(unix_socket)), what);
}

}  // namespace troupe::readers
