// Answers commands on the same machine, such as `troupe backup`, through a socket in the data
// folder: makes a consistent copy of the store for them.
#include "deploy/node/control_socket.h"

#include <stdexcept>
#include <system_error>

namespace troupe::deploy {
namespace {

namespace fs = std::filesystem;

constexpr const char* control_name = "control";
constexpr std::size_t control_reply_bytes_max = 4096;

}  // namespace

ControlSocket::ControlSocket(const fs::path& data_dir, Store& store)
    : copy_(data_dir / "backup.copy"), store_(store), socket_(data_dir, control_name) {
  std::error_code ignored;
  fs::remove_all(copy_, ignored);
  socket_.serve([this](int connection, const std::string& question) { answer(connection, question); });
}

ControlSocket::~ControlSocket() {
  socket_.end();
  std::error_code ignored;
  fs::remove_all(copy_, ignored);
}

void ControlSocket::answer(int connection, const std::string& question) const {
  const std::string reply =
      question == "copy" ? make_copy()
                         : "error \"" + question.substr(0, 60) + "\" is an unknown question; expected copy";
  if (send_text(connection, reply + "\n")) socket_.wait_for(connection);
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

StoreCopy::StoreCopy(const fs::path& data_dir) : request_(data_dir, control_name, "copy") {
  if (!request_.is_connected()) return;
  std::string reply;
  if (!request_.next_line(reply, control_reply_bytes_max)) reply.clear();
  if (!reply.starts_with("ok "))
    throw std::runtime_error(data_dir.string() + ": the process that serves it made no copy (" +
                             (reply.empty() ? "it ended" : reply) + "); expected one");
  folder_ = data_dir / reply.substr(3);
}

}  // namespace troupe::deploy
