#include "deploy/box/control_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace troupe::deploy {
namespace {

namespace fs = std::filesystem;

constexpr const char* socket_file = "control";
constexpr int question_ms_max = 5'000;

std::string words_of(int error) { return std::generic_category().message(error); }

// A socket's path may have a hundred bytes; that of the folder's descriptor is short.
class SocketAddress {
 public:
  explicit SocketAddress(const fs::path& data_dir)
      : folder_(open(data_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    address_.sun_family = AF_UNIX;
    const std::string path = "/proc/self/fd/" + std::to_string(folder_) + "/" + socket_file;
    std::strncpy(address_.sun_path, path.c_str(), sizeof address_.sun_path - 1);
  }
  ~SocketAddress() { close(folder_); }
  SocketAddress(const SocketAddress&) = delete;
  SocketAddress& operator=(const SocketAddress&) = delete;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  static constexpr socklen_t size = sizeof(sockaddr_un);

 private:
  int folder_;
  sockaddr_un address_{};
};

std::string read_line(int connection, int limit_ms) {
  std::string line;
  pollfd wait{connection, POLLIN, 0};
  for (char byte = 0; line.size() < 4096 && poll(&wait, 1, limit_ms) > 0 && recv(connection, &byte, 1, 0) == 1;) {
    if (byte == '\n') return line;
    line += byte;
  }
  return "";
}

}  // namespace

// ---- the process that serves ----

ControlSocket::ControlSocket(const fs::path& data_dir, Store& store)
    : data_dir_(data_dir), copy_(data_dir / "backup.copy"), store_(store) {
  const auto fail = [&](const char* what) {
    const std::string words = words_of(errno);
    if (listener_ >= 0) close(listener_);
    throw std::runtime_error((data_dir_ / socket_file).string() + ": " + what + ": " + words +
                             "; expected a folder where a socket can be made");
  };
  std::error_code ignored;
  fs::remove(data_dir_ / socket_file, ignored);  // of a process that was killed: the store is locked by this one
  fs::remove_all(copy_, ignored);
  const SocketAddress address(data_dir_);
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener_ < 0 || fchmod(listener_, 0600) != 0) fail("socket");
  if (bind(listener_, address.get(), SocketAddress::size) != 0) fail("bind");
  fs::permissions(data_dir_ / socket_file, fs::perms::owner_read | fs::perms::owner_write, ignored);
  if (listen(listener_, 4) != 0 || pipe2(ends_, O_CLOEXEC) != 0) fail("listen");
  thread_ = std::thread([this] { serve(); });
}

ControlSocket::~ControlSocket() {
  close(ends_[1]);
  thread_.join();
  close(ends_[0]);
  close(listener_);
  std::error_code ignored;
  fs::remove(data_dir_ / socket_file, ignored);
  fs::remove_all(copy_, ignored);
}

bool ControlSocket::wait_for(int descriptor) const {
  pollfd waits[] = {{descriptor, POLLIN, 0}, {ends_[0], POLLIN, 0}};
  while (poll(waits, 2, -1) < 0 && errno == EINTR) {
  }
  return waits[1].revents == 0;
}

void ControlSocket::serve() {
  while (wait_for(listener_)) {
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    answer(connection);
    close(connection);
  }
}

void ControlSocket::answer(int connection) const {
  const std::string question = read_line(connection, question_ms_max);
  const std::string reply =
      (question == "copy" ? make_copy() : "error \"" + question.substr(0, 60) + "\" is no question; expected copy") +
      "\n";
  if (send(connection, reply.data(), reply.size(), MSG_NOSIGNAL) > 0) wait_for(connection);
  std::error_code ignored;
  fs::remove_all(copy_, ignored);
}

std::string ControlSocket::make_copy() const {
  try {
    if (const auto failure = store_.copy_to(copy_)) return "error " + failure->why;
    return "ok " + copy_.filename().string();
  } catch (const std::exception& error) {
    return std::string("error ") + error.what();
  }
}

// ---- the command that asks ----

AskedCopy::AskedCopy(const fs::path& data_dir) : connection_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const SocketAddress address(data_dir);
  if (connection_ < 0 || connect(connection_, address.get(), SocketAddress::size) != 0) return;
  const std::string_view question = "copy\n";
  send(connection_, question.data(), question.size(), MSG_NOSIGNAL);
  const std::string reply = read_line(connection_, -1);
  if (reply.starts_with("ok ")) {
    folder_ = data_dir / reply.substr(3);
    return;
  }
  close(connection_);
  throw std::runtime_error(data_dir.string() + ": the process that serves it made no copy (" +
                           (reply.empty() ? "it ended" : reply) + "); expected one");
}

AskedCopy::~AskedCopy() {
  if (connection_ >= 0) close(connection_);
}

}  // namespace troupe::deploy
