// The queue and the thread that write log lines, and the writer of standard error.
#include "runtime/config/log_writer.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace troupe {
namespace {

constexpr int poll_ms = 100;

// Writes a part that a pipe which is ready takes without waiting. Returns the bytes written, 0 = try
// again, or -1.
ssize_t write_part(int file, std::string_view text) {
  pollfd ready{file, POLLOUT, 0};
  const int found = ::poll(&ready, 1, poll_ms);
  if (found == 0 || (found < 0 && errno == EINTR)) return 0;
  if (found < 0 || (ready.revents & POLLNVAL) != 0) return -1;
  const ssize_t wrote = ::write(file, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
  return wrote < 0 && (errno == EINTR || errno == EAGAIN) ? 0 : wrote;
}

}  // namespace

WriteLine line_stream(int file) {
  return [file](std::string_view line, const std::atomic<bool>& given_up) {
    const std::string text = std::string(line) + "\n";
    for (std::string_view left = text; !left.empty();) {
      const ssize_t wrote = given_up ? -1 : write_part(file, left);
      if (wrote < 0) return false;
      left.remove_prefix(static_cast<std::size_t>(wrote));
    }
    return true;
  };
}

LogWriter::LogWriter(WriteLine write, std::function<std::string(std::uint64_t)> lost_line, Options options)
    : options_(options), state_(std::make_shared<State>()) {
  state_->write = std::move(write);
  state_->lost_line = std::move(lost_line);
  thread_ = std::thread([state = state_] { run(*state); });
}

// A write that does not return, such as to a disk that hangs, is left to the end of the process.
LogWriter::~LogWriter() {
  std::unique_lock lock(state_->mutex);
  state_->closing = true;
  state_->more.notify_one();
  const auto ended = [this] { return state_->ended; };
  if (!state_->done.wait_for(lock, options_.end, ended)) {
    state_->given_up = true;
    state_->done.wait_for(lock, std::chrono::milliseconds(3 * poll_ms), ended);
  }
  const bool joins = state_->ended;
  lock.unlock();
  joins ? thread_.join() : thread_.detach();
}

void LogWriter::push(std::string line) {
  const std::lock_guard lock(state_->mutex);
  if (state_->bytes + line.size() > options_.bytes_max) {
    ++state_->dropped, ++state_->untold;
    return;
  }
  state_->bytes += line.size();
  state_->lines.push_back(std::move(line));
  state_->more.notify_one();
}

bool LogWriter::flush(std::chrono::milliseconds limit) const {
  std::unique_lock lock(state_->mutex);
  return state_->done.wait_for(lock, limit, [this] { return state_->lines.empty() && !state_->writing; });
}

std::uint64_t LogWriter::dropped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

void LogWriter::run(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.more.wait(lock, [&] { return !state.lines.empty() || state.closing; });
    if (state.lines.empty() || state.given_up) break;
    write_one(state, lock);
  }
  state.ended = true;
  state.done.notify_all();
}

void LogWriter::write_one(State& state, std::unique_lock<std::mutex>& lock) {
  const auto write = [&](const std::string& line) {
    lock.unlock();
    const bool written = state.write(line, state.given_up);
    lock.lock();
    return written;
  };
  const std::string line = std::move(state.lines.front());
  state.lines.pop_front();
  state.bytes -= line.size();
  state.writing = true;
  if (!write(line)) {
    ++state.dropped, ++state.untold;
  } else if (const std::uint64_t untold = std::exchange(state.untold, 0); untold > 0) {
    if (!write(state.lost_line(untold))) state.untold += untold;
  }
  state.writing = false;
  if (state.lines.empty()) state.done.notify_all();
}

}  // namespace troupe
