// Opens a Unix socket in the data folder, over which commands on the same machine ask a serving
// process one line and read its answer.
#include "deploy/tracing/folder_socket.h"

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

constexpr int question_ms_max = 5'000;
constexpr std::size_t question_bytes_max = 4096;

// Opens a socket by the short path of the folder's descriptor: a socket's path has at most about
// 100 bytes.
class SocketAddress {
 public:
  SocketAddress(const fs::path& folder, const std::string& name)
      : folder_(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    address_.sun_family = AF_UNIX;
    const std::string path = "/proc/self/fd/" + std::to_string(folder_) + "/" + name;
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

std::string read_question(int connection) {
  std::string line;
  pollfd wait{connection, POLLIN, 0};
  for (char byte = 0; line.size() < question_bytes_max && poll(&wait, 1, question_ms_max) > 0 &&
                      recv(connection, &byte, 1, 0) == 1;) {
    if (byte == '\n') return line;
    line += byte;
  }
  return "";
}

}  // namespace

// ---- serving process ----

FolderSocket::FolderSocket(const fs::path& data_dir, std::string name) : file_(data_dir / name) {
  const auto fail = [&](const char* what) {
    const std::string words = std::generic_category().message(errno);
    if (listener_ >= 0) close(listener_);
    throw std::runtime_error(file_.string() + ": " + what + ": " + words +
                             "; expected a folder where a socket can be made");
  };
  std::error_code ignored;
  fs::remove(file_, ignored);  // left by a killed process: this process holds the folder's lock
  const SocketAddress address(data_dir, name);
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener_ < 0 || fchmod(listener_, 0600) != 0) fail("socket");
  if (bind(listener_, address.get(), SocketAddress::size) != 0) fail("bind");
  fs::permissions(file_, fs::perms::owner_read | fs::perms::owner_write, ignored);
  if (listen(listener_, 4) != 0 || pipe2(stop_pipe_, O_CLOEXEC) != 0) fail("listen");
}

FolderSocket::~FolderSocket() {
  end();
  close(stop_pipe_[0]);
  close(listener_);
  std::error_code ignored;
  fs::remove(file_, ignored);
}

void FolderSocket::end() {
  if (stop_pipe_[1] >= 0) close(stop_pipe_[1]);
  stop_pipe_[1] = -1;
  if (thread_.joinable()) thread_.join();
}

bool FolderSocket::wait_for(int descriptor) const {
  pollfd waits[] = {{descriptor, POLLIN, 0}, {stop_pipe_[0], POLLIN, 0}};
  while (poll(waits, 2, -1) < 0 && errno == EINTR) {
  }
  return waits[1].revents == 0;
}

bool FolderSocket::is_closing(int connection) const {
  pollfd waits[] = {{connection, POLLIN, 0}, {stop_pipe_[0], POLLIN, 0}};
  return poll(waits, 2, 0) > 0;
}

void FolderSocket::serve(Answer answer) {
  thread_ = std::thread([this, answer = std::move(answer)] {
    while (wait_for(listener_)) {
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      answer(connection, read_question(connection));
      close(connection);
    }
  });
}

bool send_text(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// ---- asking command ----

FolderRequest::FolderRequest(const fs::path& data_dir, const std::string& name, const std::string& question)
    : connection_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const SocketAddress address(data_dir, name);
  if (connection_ >= 0 && connect(connection_, address.get(), SocketAddress::size) == 0) {
    send_text(connection_, question + "\n");
    return;
  }
  if (connection_ >= 0) close(connection_);
  connection_ = -1;
}

FolderRequest::~FolderRequest() {
  if (connection_ >= 0) close(connection_);
}

bool FolderRequest::next_line(std::string& line, std::size_t bytes_max) {
  for (std::size_t looked = 0;;) {
    const std::size_t end = buffer_.find('\n', looked);
    if (end != buffer_.npos) {
      line.assign(buffer_, 0, end);
      buffer_.erase(0, end + 1);
      return true;
    }
    looked = buffer_.size();
    if (looked > bytes_max) return false;
    char bytes[16 << 10];
    const ssize_t got = recv(connection_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(got));
  }
}

}  // namespace troupe::deploy
