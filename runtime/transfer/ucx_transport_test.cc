#include "runtime/transfer/ucx_transport.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "runtime/testing/transport_test.h"
#include "runtime/transfer/ucx_address.h"
#include "runtime/transfer/ucx_library.h"

using namespace troupe;

namespace ucx_transport_test {

constexpr int line_fd = 3;  // of the other process: its end of the socket to the test
constexpr Incarnation owner_incarnation = 100;
constexpr std::size_t page_bytes = 64 << 10, pages = 256;

void take_exactly(int fd, void* to, std::size_t size) {
  for (auto* at = static_cast<char*>(to); size > 0;) {
    const ssize_t got = read(fd, at, size);
    if (got <= 0) throw std::runtime_error("the other end is closed");
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

// An owner in its own process, with the pages that `fill` gives its incarnation. It sends a '?' for
// each request and answers when it receives a byte.
class OtherProcess {
 public:
  OtherProcess() {
    std::array<int, 2> ends{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    line_ = ends[0];
    std::string program = "/proc/self/exe", test = "--test-case=*the other process*", all = "--no-skip";
    std::array<char*, 4> arguments{program.data(), test.data(), all.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // Dup2 onto itself would keep the close-on-exec flag.
    const int between = fcntl(ends[1], F_DUPFD, 10);
    posix_spawn_file_actions_adddup2(&actions, between, line_fd);
    posix_spawn_file_actions_addclose(&actions, between);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    REQUIRE(posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(between);
    close(ends[1]);
    std::uint32_t size = 0;
    take_exactly(line_, &size, sizeof size);
    address_.resize(size);
    take_exactly(line_, address_.data(), size);
  }
  ~OtherProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(line_);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  const Bytes& address() const { return address_; }
  void signal(int number) { kill(pid_, number); }
  void allow(std::size_t answers) {
    const std::string bytes(answers, '!');
    REQUIRE(write(line_, bytes.data(), bytes.size()) == static_cast<ssize_t>(answers));
  }
  void await_requests(std::size_t count) {
    std::string bytes(count, ' ');
    take_exactly(line_, bytes.data(), count);
  }

 private:
  int line_ = -1;
  pid_t pid_ = -1;
  Bytes address_;
};

// State of this process about the other one's pages.
struct Reader {
  Reader() {
    fill(there, owner_incarnation);
    transport.meet(1, owner_incarnation, other.address());
  }
  PullBlocks work(std::uint32_t first, std::uint32_t count, std::int64_t budget_us = patient_us) const {
    std::vector<std::uint32_t> same(count);
    std::iota(same.begin(), same.end(), first);
    PullBlocks pull{1, owner_incarnation, budget_us, {}};
    pull.blocks.push_back(block_of(there, same, same));
    return pull;
  }
  PageArena there{page_bytes, pages}, arena{page_bytes, pages};
  MetricRegistry metrics;
  OtherProcess other;
  UcxTransport transport{{.devices = "lo"}, 200, arena, metrics};
};

TEST_CASE("ucx transport: a destroyed transport has closed its files") {
  const auto open_files = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  PageArena arena(page_bytes, pages);
  MetricRegistry metrics;
  // Opens what UCX keeps for the whole process.
  { UcxTransport first({.devices = "lo"}, 1, arena, metrics); }
  const auto before = open_files();
  { UcxTransport second({.devices = "lo"}, 2, arena, metrics); }
  CHECK(open_files() == before);
}

TEST_CASE("ucx transport: the other process (part of other tests, not a test itself)" * doctest::skip()) {
  int type = 0;
  socklen_t size = sizeof type;
  if (getsockopt(line_fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) {
    MESSAGE("skipped: only the tests of the UCX transport can start this");
    return;
  }
  PageArena arena(page_bytes, pages);
  fill(arena, owner_incarnation);
  MetricRegistry metrics;
  UcxTransport transport({.devices = "lo",
                          .before_answer =
                              [] {
                                char byte = '?';
                                if (write(line_fd, &byte, 1) != 1 || read(line_fd, &byte, 1) != 1) _exit(0);
                              }},
                         owner_incarnation, arena, metrics);
  const Bytes address = transport.address();
  const auto bytes = static_cast<std::uint32_t>(address.size());
  REQUIRE(write(line_fd, &bytes, sizeof bytes) == sizeof bytes);
  REQUIRE(write(line_fd, address.data(), bytes) == static_cast<ssize_t>(bytes));
  pollfd end{line_fd, 0, 0};  // until the test ends
  while (poll(&end, 1, -1) < 0) continue;
}

TEST_CASE("ucx transport: pages arrive from another process") {
  Reader reader;
  reader.other.allow(64);  // of four pages each
  CHECK(said(reader.transport.pull(reader.work(0, 256))) == "ok 1");
  CHECK(bytes_of(reader.arena) == bytes_of(reader.there));
}

TEST_CASE(
    "ucx transport: a process killed in the middle of a transfer ends its pulls long before their deadline") {
  Reader reader;
  std::string outcome;
  std::thread thread([&] { outcome = said(reader.transport.pull(reader.work(0, 256))); });
  reader.other.allow(2);
  reader.other.await_requests(3);
  reader.other.signal(SIGKILL);
  thread.join();
  CHECK(outcome == "peer_lost");
}

TEST_CASE(
    "ucx transport: a process stopped during a transfer gives a refusal at the deadline, and its late "
    "bytes are not written") {
  Reader reader;
  std::string outcome;
  reader.other.allow(2);
  std::thread thread([&] { outcome = said(reader.transport.pull(reader.work(0, 128, 300'000))); });
  reader.other.await_requests(3);
  reader.other.signal(SIGSTOP);
  thread.join();
  CHECK(outcome == "transfer_timeout");
  const auto before = bytes_of(reader.arena);
  reader.other.allow(100);
  reader.other.signal(SIGCONT);
  CHECK(said(reader.transport.pull(reader.work(128, 64))) == "ok 1");
  for (std::uint32_t page = 0; page < 128; ++page)
    REQUIRE(std::memcmp(&before[page * page_bytes], reader.arena.page(page), page_bytes) == 0);
  CHECK(said(reader.transport.pull(reader.work(0, 128))) == "ok 1");
}

TEST_CASE("ucx transport: a restarted process is reached by its new address") {
  Reader reader;
  reader.other.allow(1);
  CHECK(said(reader.transport.pull(reader.work(0, 1))) == "ok 1");
  OtherProcess again;
  again.allow(1);
  reader.other.signal(SIGKILL);
  reader.transport.lose(1, owner_incarnation);
  CHECK(said(reader.transport.pull(reader.work(1, 1))) == "peer_lost");
  reader.transport.meet(1, owner_incarnation, again.address());
  CHECK(said(reader.transport.pull(reader.work(1, 1))) == "ok 1");
}

TEST_CASE("ucx transport: a silent peer gets a new connection, and its late bytes are not written") {
  UcxWorld world;
  TestNode<UcxWorld> owner(world, 1, 100);
  PageArena arena(4096, 64);
  MetricRegistry metrics;
  UcxTransport reader({.devices = "lo", .silence_max = std::chrono::milliseconds(0)}, 200, arena, metrics);
  reader.meet(1, 100, owner.transport->address());
  PullBlocks pull = pull_from(owner);
  pull.blocks.push_back(block_of(owner.arena, {1, 2}, {1, 2}));
  for (int round = 0; round < 3; ++round) {
    owner.gate.shut();
    PullBlocks in_vain = pull_from(owner, hasty_us);
    in_vain.blocks.push_back(block_of(owner.arena, {3, 4}, {3, 4}));
    CHECK(said(reader.pull(in_vain)) == "transfer_timeout");
    owner.gate.open();
    CHECK(said(reader.pull(pull)) == "ok 1");
  }
  CHECK(arena.page(3)[0] == std::byte{0});
  CHECK(arena.page(4)[4095] == std::byte{0});
}

// Returns `address` with keys that are not all the owner's.
Bytes with_other_keys(const Bytes& address, const std::function<void(std::optional<SealKeys>&)>& change) {
  unsigned major = 0, minor = 0, release = 0;
  ucx().ucp_get_version(&major, &minor, &release);
  const UcxVersion version{static_cast<std::uint16_t>(major), static_cast<std::uint16_t>(minor)};
  auto unpacked = unpack_ucx_address(version, address);
  REQUIRE(unpacked);
  REQUIRE(unpacked->keys.has_value());
  change(unpacked->keys);
  return pack_ucx_address(version, *unpacked);
}

TEST_CASE("ucx transport: a reader without a sealed owner's keys gets no page and is counted") {
  SealedWorld world;
  TestNode<SealedWorld> owner(world, 1, 100), reader(world, 2, 200);
  PullBlocks pull = pull_from(owner, hasty_us);
  pull.blocks.push_back(block_of(owner.arena, {1, 2}, {3, 4}));
  const auto before = bytes_of(reader.arena);
  double refused = 0;
  for (const bool has_some : {false, true}) {
    reader.transport->meet(1, 100,
                           with_other_keys(owner.transport->address(), [&](std::optional<SealKeys>& keys) {
                             keys = has_some ? std::optional(generate_seal_keys()) : std::nullopt;
                           }));
    CHECK(said(reader.transport->pull(pull)) == "transfer_timeout");
    CHECK(owner.await_protocol_errors(++refused));
    reader.transport->lose(1, 100);
  }
  CHECK(reader.protocol_errors() == 0);  // it received no reply
  CHECK(bytes_of(reader.arena) == before);
  reader.transport->meet(1, 100, owner.transport->address());
  pull.budget_us = patient_us;
  CHECK(said(reader.transport->pull(pull)) == "ok 1");
}

TEST_CASE("ucx transport: a forged reply that its owner did not seal is not written") {
  SealedWorld world;
  TestNode<SealedWorld> owner(world, 1, 100), reader(world, 2, 200);
  reader.transport->meet(1, 100,
                         with_other_keys(owner.transport->address(), [](std::optional<SealKeys>& keys) {
                           keys->replies = generate_seal_keys().replies;
                         }));
  PullBlocks pull = pull_from(owner, hasty_us);
  pull.blocks.push_back(block_of(owner.arena, {1}, {3}));
  const auto before = bytes_of(reader.arena);
  pull.budget_us = patient_us;
  CHECK(said(reader.transport->pull(pull)) == "transfer_damaged");
  CHECK(reader.await_protocol_errors(1));  // counted after the pull has ended
  CHECK(reader.protocol_errors() == 1);
  CHECK(owner.protocol_errors() == 0);
  CHECK(bytes_of(reader.arena) == before);
}

TEST_CASE("ucx transport: a large page has few sealed pieces in flight at a time, and all arrive") {
  SealedWorld world;
  TestNode<SealedWorld> owner(world, 1, 100, std::size_t{3} << 20, 4),
      reader(world, 2, 200, std::size_t{3} << 20, 4);
  reader.meet(owner);
  PullBlocks pull = pull_from(owner);
  pull.blocks.push_back(block_of(owner.arena, {0, 1, 2, 3}, {3, 2, 1, 0}));
  CHECK(said(reader.transport->pull(pull)) == "ok 1");
}

TEST_CASE("ucx transport: sealing and plain processes read each other's pages") {
  UcxWorld open;
  SealedWorld sealed;
  TestNode<UcxWorld> first(open, 1, 100);
  TestNode<SealedWorld> second(sealed, 2, 200);
  first.transport->meet(2, 200, second.transport->address());
  second.transport->meet(1, 100, first.transport->address());
  PullBlocks of_first = pull_from(first), of_second = pull_from(second);
  of_first.blocks.push_back(block_of(first.arena, {1}, {1}));
  of_second.blocks.push_back(block_of(second.arena, {2}, {2}));
  CHECK(said(second.transport->pull(of_first)) == "ok 1");
  CHECK(said(first.transport->pull(of_second)) == "ok 1");
}

TEST_CASE("ucx transport: an unknown UCX transport or device is reported") {
  PageArena arena(4096, 1);
  MetricRegistry metrics;
  CHECK_THROWS_AS(UcxTransport({"no_such_transport", "lo"}, 1, arena, metrics), std::runtime_error);
  CHECK_THROWS_AS(UcxTransport({"tcp", "no_such_device"}, 1, arena, metrics), std::runtime_error);
}

}  // namespace ucx_transport_test
