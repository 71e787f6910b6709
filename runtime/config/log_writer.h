#pragma once
// Writes log lines on a thread of its own. Whoever logs never waits for the reader of a pipe or for a
// disk: lines wait in a bounded queue, and those that do not fit are dropped and counted. Once lines
// are written again, one line tells how many were lost.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace troupe {

// Writes one line, which has no line break; returns false if it was lost. It may wait, and gives up
// soon after `given_up` is true.
using WriteLine = std::function<bool(std::string_view line, const std::atomic<bool>& given_up)>;

// Writes lines to an open file that may be a pipe. Waits while nobody reads, without blocking the
// file for others; if the reader has gone, lines are lost. The process must ignore SIGPIPE.
WriteLine line_stream(int file);

class LogWriter {
 public:
  struct Options {
    std::size_t bytes_max = 4 << 20;      // of waiting lines
    std::chrono::milliseconds end{1000};  // at the end, time for the lines that still wait
  };

  // `lost_line` returns the line that tells of so many lost lines.
  LogWriter(WriteLine write, std::function<std::string(std::uint64_t lost)> lost_line, Options options);
  LogWriter(WriteLine write, std::function<std::string(std::uint64_t lost)> lost_line)
      : LogWriter(std::move(write), std::move(lost_line), Options{}) {}
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  void push(std::string line);
  bool flush(std::chrono::milliseconds limit) const;  // waits until all lines are written or lost
  std::uint64_t dropped() const;                      // lines lost since the start

 private:
  // Shared with the thread, which outlives the writer if a write never returns.
  struct State {
    WriteLine write;
    std::function<std::string(std::uint64_t)> lost_line;
    std::mutex mutex;  // protects the members below
    std::condition_variable more, done;
    std::deque<std::string> lines;
    std::size_t bytes = 0;
    std::uint64_t dropped = 0, untold = 0;  // lost lines: all, and those that no line told of
    bool writing = false, closing = false, ended = false;
    std::atomic<bool> given_up = false;
  };
  static void run(State& state);
  static void write_one(State& state, std::unique_lock<std::mutex>& lock);

  const Options options_;
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace troupe
