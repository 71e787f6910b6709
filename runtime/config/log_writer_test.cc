#include "runtime/config/log_writer.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <semaphore>
#include <utility>
#include <vector>

using namespace troupe;

namespace log_writer_test {

constexpr std::chrono::milliseconds patient{60'000};

std::string lost_line(std::uint64_t lost) { return "lost " + std::to_string(lost); }

// A pipe whose reader may stop or go.
struct Pipe {
  std::array<int, 2> ends{};
  Pipe() { REQUIRE(pipe(ends.data()) == 0); }
  ~Pipe() {
    close_reader();
    ::close(ends[1]);
  }
  void close_reader() {
    if (ends[0] >= 0) ::close(std::exchange(ends[0], -1));
  }
  std::string read_available() const {
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    std::string all, part(1 << 16, ' ');
    for (ssize_t got = 0; (got = ::read(ends[0], part.data(), part.size())) > 0;)
      all.append(part, 0, static_cast<std::size_t>(got));
    return all;
  }
};

TEST_SUITE("log writer") {
  TEST_CASE("log writer: while a write waits, lines beyond the queue are dropped, counted and told of") {
    std::binary_semaphore begun{0}, go_on{0};
    std::vector<std::string> written;
    const WriteLine slow = [&](std::string_view line, const std::atomic<bool>&) {
      if (line == "first") begun.release(), go_on.acquire();
      written.emplace_back(line);
      return true;
    };
    {
      LogWriter writer(slow, lost_line, {.bytes_max = 10, .end = patient});
      writer.push("first");
      begun.acquire();
      for (const char* line : {"12345", "67890", "x", "y"}) writer.push(line);  // 10 bytes fit
      CHECK(writer.dropped() == 2);
      go_on.release();
      CHECK(writer.flush(patient));
      writer.push("again");
      CHECK(writer.flush(patient));
    }
    CHECK(written == std::vector<std::string>{"first", "lost 2", "12345", "67890", "again"});
  }

  TEST_CASE("log writer: the end writes what waits") {
    std::vector<std::string> written;
    {
      LogWriter writer(
          [&](std::string_view line, const std::atomic<bool>&) {
            written.emplace_back(line);
            return true;
          },
          lost_line, {.end = patient});
      for (int i = 0; i < 100; ++i) writer.push(std::to_string(i));
    }
    CHECK(written.size() == 100);
  }

  TEST_CASE("log writer: neither a reader that stops nor one that goes keeps the writer from ending") {
    signal(SIGPIPE, SIG_IGN);
    Pipe pipe;
    {
      LogWriter writer(line_stream(pipe.ends[1]), lost_line,
                       {.bytes_max = 1 << 20, .end = std::chrono::milliseconds(0)});
      for (int i = 0; i < 2000; ++i) writer.push(std::string(1000, 'x'));  // a pipe has 64 KiB
      CHECK(writer.dropped() > 500);
    }
    LogWriter writer(line_stream(pipe.ends[1]), lost_line, {.end = patient});
    pipe.close_reader();
    for (int i = 0; i < 10; ++i) writer.push("nobody reads this");
    CHECK(writer.flush(patient));
    CHECK(writer.dropped() == 10);
  }

  TEST_CASE("log writer: long and short lines reach a pipe whole, and the reader may come late") {
    Pipe pipe;
    LogWriter writer(line_stream(pipe.ends[1]), lost_line, {.end = patient});
    const std::string line(30'000, 'y');
    for (int i = 0; i < 10; ++i) writer.push(line);
    std::string all;
    while (all.size() < 10 * (line.size() + 1)) all += pipe.read_available();
    CHECK(writer.flush(patient));
    CHECK(writer.dropped() == 0);
    std::string whole;
    for (int i = 0; i < 10; ++i) whole += line + "\n";
    CHECK(all == whole);
  }

  TEST_CASE("log writer: lines to a closed stream are lost, and no more") {
    LogWriter closed(line_stream(1'000'000), lost_line, {.end = patient});
    closed.push("a");
    CHECK(closed.flush(patient));
    CHECK(closed.dropped() == 1);
  }
}

}  // namespace log_writer_test
