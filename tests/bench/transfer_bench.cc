// Measures how fast pages come from another process, by the workers' transport and by a plain socket. One
// process owns the pages, another one reads; transfer.py puts them into two network namespaces.
//   transfer_bench own [--port PORT] [--device NAME]    prints "port N", serves until its input ends
//   transfer_bench read --from HOST:PORT --how HOW [--block BYTES] [--at-once N] [--seconds S]
//                       [--together N] [--socket-buffers BYTES] [--device NAME]
// HOW is "pull" (Transport::pull over UCX, with checksums), "sealed" (the same, encrypted), "links" (over
// sockets as links hand them over, in the clear), "tls" (the same with TLS 1.3 and certificates), "socket"
// (a request of 16 bytes, then the block), or a basic operation: "checksum" (of the block, in place), "copy"
// (memcpy within this process), "seal" and "open" (of the block, in pieces). Prints one JSON object. Every
// block is at the same address each time, as in ucx_perftest.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/pool/page_arena.h"
#include "runtime/testing/link_sockets.h"
#include "runtime/transfer/link_transport.h"
#include "runtime/transfer/page_seal.h"
#include "runtime/transfer/pull_wire.h"
#include "runtime/transfer/ucx_transport.h"

using namespace troupe;

namespace {

using Clock = std::chrono::steady_clock;

constexpr NodeId owner_node = 1;
constexpr Incarnation owner_incarnation = 100, reader_incarnation = 200;
constexpr std::size_t page_bytes_max = 64 << 10;

struct Options {
  std::string command, from, how = "pull", device;
  std::size_t block = 1 << 20, at_once = 1, socket_buffers = 0;  // 0 = the system's default
  std::size_t together = 1;  // blocks of a pull, whose bytes together are `block`
  double seconds = 0.5;
  std::uint16_t port = 0;
};

// First message of a reader. Both sides then fill the same pages with the same numbers.
struct ReaderHello {
  enum Wants : std::uint64_t { pulls, a_socket, sealed_pulls, link_pulls, tls_pulls };
  std::uint64_t wants = pulls, page_bytes = 0, pages = 0, socket_buffers = 0;
};
struct BlockRequest {
  std::uint64_t number = 0, bytes = 0;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

// ---- sockets ----

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {
    if (fd_ < 0) fail("socket");
    const int one = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void set_buffers(std::uint64_t bytes) const {
    const int size = static_cast<int>(bytes);
    if (size == 0) return;
    setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  }
  void send_all(const void* from, std::size_t size) const {
    for (const auto* at = static_cast<const char*>(from); size > 0;) {
      const ssize_t sent = send(fd_, at, size, MSG_NOSIGNAL);
      if (sent < 0) fail("send");
      at += sent, size -= static_cast<std::size_t>(sent);
    }
  }
  // Returns false if the other end has closed the connection.
  bool take_all(void* to, std::size_t size) const {
    for (auto* at = static_cast<char*>(to); size > 0;) {
      const ssize_t got = recv(fd_, at, size, MSG_WAITALL);
      if (got < 0) fail("recv");
      if (got == 0) return false;
      at += got, size -= static_cast<std::size_t>(got);
    }
    return true;
  }

 private:
  int fd_;
};

sockaddr_in address_of(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
    throw std::runtime_error("--from " + host + " is no IPv4 address; expected HOST:PORT, as 10.0.0.1:7000");
  return address;
}

int connect_to(const std::string& from) {
  const std::size_t colon = std::min(from.find(':'), from.size());
  const int port = colon < from.size() ? std::atoi(from.c_str() + colon + 1) : 0;
  const sockaddr_in address = address_of(from.substr(0, colon), static_cast<std::uint16_t>(port));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fail("connect to " + from);
  return fd;
}

int listen_at(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address = address_of("0.0.0.0", port);
  socklen_t size = sizeof address;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 || listen(fd, 16) != 0)
    fail("listen at port " + std::to_string(port));
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  std::printf("port %d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  return fd;
}

// ---- both sides ----

void fill(const PageArena& arena) {
  std::mt19937_64 random(1);
  for (std::uint32_t page = 0; page < arena.pages(); ++page)
    for (std::size_t i = 0; i < arena.page_bytes(); i += 8) {
      const std::uint64_t word = random();
      std::memcpy(arena.page(page) + i, &word, 8);
    }
}

std::vector<std::uint32_t> pages_from(std::size_t first, std::size_t count) {
  std::vector<std::uint32_t> pages(count);
  std::iota(pages.begin(), pages.end(), static_cast<std::uint32_t>(first));
  return pages;
}

void send_text(const Socket& to, const std::string& text) {
  const std::uint64_t size = text.size();
  to.send_all(&size, sizeof size);
  to.send_all(text.data(), size);
}

std::string take_text(const Socket& from) {
  std::uint64_t size = 0;
  if (!from.take_all(&size, sizeof size)) throw std::runtime_error("the owner has ended");
  std::string text(size, ' ');
  from.take_all(text.data(), size);
  return text;
}

// ---- the owner ----

void serve_pulls(const Socket& reader, PageArena& arena, const std::string& device, bool sealed) {
  MetricRegistry metrics;
  UcxTransport transport({.devices = device, .sealed = sealed}, owner_incarnation, arena, metrics);
  const Bytes address = transport.address();
  send_text(reader, {address.begin(), address.end()});
  char end = 0;
  reader.take_all(&end, 1);
}

// One end of a connection for pages, after its handshake, which blocks.
PageSocket page_socket(int fd, const TestTls* tls, bool calls) {
  if (!tls) return PageSocket(fd);
  SSL* const session = tls->side(fd, calls);
  if (SSL_do_handshake(session) != 1) throw std::runtime_error("the TLS handshake failed");
  return PageSocket(fd, session);
}

// The reader opens a second connection, for the pages.
void serve_link_pulls(int listener, const Socket& reader, PageArena& arena, bool secure) {
  const TestTls::Files files = TestTls::make_files();
  for (const std::string* text : {&files.authority, &files.certificate, &files.key})
    if (secure) send_text(reader, *text);
  const TestTls tls(files);
  MetricRegistry metrics;
  LinkTransport transport({}, owner_incarnation, arena, metrics);
  transport.accept(
      2, reader_incarnation,
      page_socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), secure ? &tls : nullptr, false));
  char end = 0;
  reader.take_all(&end, 1);
}

void serve_socket(const Socket& reader, const PageArena& arena) {
  for (BlockRequest ask; reader.take_all(&ask, sizeof ask);)
    reader.send_all(arena.page(0), std::min<std::size_t>(ask.bytes, arena.pages() * arena.page_bytes()));
}

void own(const Options& options) {
  const int listener = listen_at(options.port);
  std::thread serving([&] {
    for (;;) {
      const Socket reader(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
      try {
        ReaderHello hello;
        if (!reader.take_all(&hello, sizeof hello)) continue;
        reader.set_buffers(hello.socket_buffers);
        PageArena arena(hello.page_bytes, hello.pages);
        fill(arena);
        if (hello.wants == ReaderHello::a_socket)
          serve_socket(reader, arena);
        else if (hello.wants == ReaderHello::link_pulls || hello.wants == ReaderHello::tls_pulls)
          serve_link_pulls(listener, reader, arena, hello.wants == ReaderHello::tls_pulls);
        else
          serve_pulls(reader, arena, options.device, hello.wants == ReaderHello::sealed_pulls);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "transfer_bench: a reader: %s\n", error.what());
      }
    }
  });
  for (char byte = 0; read(STDIN_FILENO, &byte, 1) > 0;) continue;
  _exit(0);
}

// ---- the reader ----

// Times of an operation that several threads repeat.
struct TransferTimes {
  std::vector<double> us;
  double seconds = 0, cpu_seconds = 0;
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double us_since(Clock::time_point began) {
  return std::chrono::duration<double, std::micro>(Clock::now() - began).count();
}

TransferTimes repeat(const Options& options, const std::function<void(std::size_t thread)>& once) {
  std::vector<std::vector<double>> us(options.at_once);
  const auto run = [&](std::size_t thread, double seconds) {
    us[thread].clear();
    const auto began = Clock::now();
    do {
      const auto start = Clock::now();
      once(thread);
      us[thread].push_back(us_since(start));
    } while (us_since(began) < seconds * 1e6);
  };
  run(0, options.seconds / 5);  // connects and warms up
  const auto began = Clock::now();
  const double cpu = cpu_seconds();
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < options.at_once; ++i) threads.emplace_back(run, i, options.seconds);
  run(0, options.seconds);
  for (std::thread& thread : threads) thread.join();
  TransferTimes measured{{}, us_since(began) * 1e-6, cpu_seconds() - cpu};
  for (const auto& some : us) measured.us.insert(measured.us.end(), some.begin(), some.end());
  return measured;
}

struct Block {
  explicit Block(const Options& options)
      : page_bytes(std::min(options.block / options.together, page_bytes_max)),
        pages(options.block / std::max<std::size_t>(1, page_bytes)) {
    if (page_bytes == 0 || pages * page_bytes != options.block || page_bytes % 8 != 0 ||
        pages % options.together != 0)
      throw std::runtime_error("--block " + std::to_string(options.block) + " in " +
                               std::to_string(options.together) +
                               " is not whole; expected a multiple of 8 in each, above 65536 one of 65536");
  }
  std::size_t page_bytes, pages;
};

ReaderHello::Wants pulls_wanted(const std::string& how) {
  if (how == "links") return ReaderHello::link_pulls;
  if (how == "tls") return ReaderHello::tls_pulls;
  return how == "sealed" ? ReaderHello::sealed_pulls : ReaderHello::pulls;
}

// Returns this side's transport, which knows the owner.
std::unique_ptr<Transport> transport_to_owner(const Options& options, const Socket& control, PageArena& arena,
                                              MetricRegistry& metrics) {
  if (options.how == "pull" || options.how == "sealed") {
    const std::string address = take_text(control);
    auto ucx = std::make_unique<UcxTransport>(UcxOptions{.devices = options.device}, reader_incarnation,
                                              arena, metrics);
    ucx->meet(owner_node, owner_incarnation, {address.begin(), address.end()});
    return ucx;
  }
  std::shared_ptr<TestTls> tls;
  if (options.how == "tls") {
    TestTls::Files files;
    for (std::string* text : {&files.authority, &files.certificate, &files.key}) *text = take_text(control);
    tls = std::make_shared<TestTls>(files);
  }
  auto links = std::make_unique<LinkTransport>(LinkTransportOptions{}, reader_incarnation, arena, metrics);
  links->dial_with(
      [tls, from = options.from](NodeId, Incarnation, const Bytes&, const LinkTransport::TakeSocket& take) {
        take(page_socket(connect_to(from), tls.get(), true), "");
      });
  links->meet(owner_node, owner_incarnation, links->address());
  return links;
}

TransferTimes pull(const Options& options, const Block& block) {
  const Socket control(connect_to(options.from));
  const ReaderHello hello{pulls_wanted(options.how), block.page_bytes, block.pages, 0};
  control.send_all(&hello, sizeof hello);
  PageArena arena(block.page_bytes, block.pages * options.at_once);
  PageArena same(block.page_bytes, block.pages);
  fill(same);
  const std::size_t pages_of_one = block.pages / options.together;
  std::vector<std::uint64_t> checksums;
  for (std::size_t one = 0; one < options.together; ++one)
    checksums.push_back(checksum_pages(same, pages_from(one * pages_of_one, pages_of_one)));
  MetricRegistry metrics;
  const std::unique_ptr<Transport> transport = transport_to_owner(options, control, arena, metrics);
  return repeat(options, [&](std::size_t thread) {
    PullBlocks work{owner_node, owner_incarnation, 60'000'000, {}};
    for (std::size_t one = 0; one < options.together; ++one)
      work.blocks.push_back({{},
                             1,
                             checksums[one],
                             1,
                             pages_from(one * pages_of_one, pages_of_one),
                             pages_from(thread * block.pages + one * pages_of_one, pages_of_one)});
    const auto outcome = transport->pull(work);
    const auto* pulled = std::get_if<PullResult>(&outcome);
    if (!pulled) throw std::runtime_error("pull: " + std::get<Refusal>(outcome).code);
    if (!std::ranges::all_of(pulled->ok, [](auto ok) { return ok != 0; }))
      throw std::runtime_error("pull: the bytes are not those that were sent");
  });
}

// Reads blocks; with several at once, that many requests are sent before the first answer.
TransferTimes take_by_socket(const Options& options, const Block& block) {
  const Socket owner(connect_to(options.from));
  const ReaderHello hello{ReaderHello::a_socket, block.page_bytes, block.pages, options.socket_buffers};
  owner.set_buffers(options.socket_buffers);
  owner.send_all(&hello, sizeof hello);
  PageArena arena(block.page_bytes, block.pages * options.at_once), same(block.page_bytes, block.pages);
  fill(same);
  const BlockRequest ask{0, options.block};
  for (std::size_t i = 1; i < options.at_once; ++i) owner.send_all(&ask, sizeof ask);
  Options one = options;
  one.at_once = 1;
  std::size_t taken = 0;
  const auto take = [&] {
    const auto first = static_cast<std::uint32_t>(taken++ % options.at_once * block.pages);
    if (!owner.take_all(arena.page(first), options.block)) throw std::runtime_error("the owner has ended");
  };
  const TransferTimes measured = repeat(one, [&](std::size_t) {
    owner.send_all(&ask, sizeof ask);
    take();
  });
  for (std::size_t i = 1; i < options.at_once; ++i) take();
  if (std::memcmp(arena.page(0), same.page(0), options.block) != 0)
    throw std::runtime_error("socket: the bytes are not those that were sent");
  return measured;
}

// Seals the pieces one after the other, as the transport does; with "open" also opens them.
TransferTimes seal(const Options& options) {
  std::vector<std::uint8_t> clear(options.block, 7), sealed(piece_bytes);
  const SealKeys keys = generate_seal_keys();
  PageSealer sealer(keys.replies, PageSealer::Nonces::counted);
  PageOpener opener(keys.replies);
  const ReplyHeader header = encode(PullReply{});
  const std::size_t first = std::min(piece_bytes, options.block);
  const PageSealer::Part part(clear.data(), first);
  const Seal seal = sealer.seal(header, {&part, 1}, sealed.data());
  const bool opens = options.how == "open";
  const std::vector<std::uint8_t> other = sealed;
  return repeat(options, [&](std::size_t) {
    for (std::size_t begin = 0; begin < options.block; begin += first) {
      const PageSealer::Part piece(&clear[begin], std::min(first, options.block - begin));
      if (!opens)
        sealer.seal(header, {&piece, 1}, sealed.data());
      else if (!opener.open(seal, header, {other.data(), first}, sealed.data()))
        throw std::runtime_error("open: it does not");
    }
  });
}

TransferTimes measure(const Options& options) {
  const Block block(options);
  if (options.how == "pull" || options.how == "sealed" || options.how == "links" || options.how == "tls")
    return pull(options, block);
  if (options.how == "seal" || options.how == "open") return seal(options);
  if (options.how == "socket") return take_by_socket(options, block);
  PageArena arena(block.page_bytes, block.pages), other(block.page_bytes, block.pages);
  fill(other);
  const auto pages = pages_from(0, block.pages);
  std::uint64_t sum = 0;
  if (options.how == "checksum")
    return repeat(options, [&](std::size_t) { sum = std::max(sum, checksum_pages(other, pages)); });
  if (options.how == "copy")
    return repeat(options, [&](std::size_t) { std::memcpy(arena.page(0), other.page(0), options.block); });
  throw std::runtime_error(
      "--how " + options.how +
      " is unknown; expected pull, sealed, links, tls, socket, checksum, copy, seal or open");
}

void print(const Options& options, TransferTimes measured) {
  std::sort(measured.us.begin(), measured.us.end());
  const auto rank = [&](double share) {
    return measured.us[static_cast<std::size_t>(share * static_cast<double>(measured.us.size() - 1))];
  };
  const double gigabytes = 1e-9 * static_cast<double>(measured.us.size() * options.block);
  std::printf(
      R"({"how": "%s", "block": %zu, "at_once": %zu, "together": %zu, "transfers": %zu, "gb_s": %.4f,)"
      R"( "p50_us": %.1f, "p99_us": %.1f, )"
      R"("cpu_s_per_gb": %.3f})"
      "\n",
      options.how.c_str(), options.block, options.at_once, options.together, measured.us.size(),
      gigabytes / measured.seconds, rank(0.5), rank(0.99), measured.cpu_seconds / gigabytes);
}

// ---- the command line ----

Options parse(int count, char** arguments) {
  Options options;
  options.command = count > 1 ? arguments[1] : "";
  const auto number = [](const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); };
  const std::map<std::string, std::function<void(const std::string&)>> known{
      {"--from", [&](auto& value) { options.from = value; }},
      {"--how", [&](auto& value) { options.how = value; }},
      {"--device", [&](auto& value) { options.device = value; }},
      {"--block", [&](auto& value) { options.block = number(value); }},
      {"--at-once", [&](auto& value) { options.at_once = std::max<std::size_t>(1, number(value)); }},
      {"--together", [&](auto& value) { options.together = std::max<std::size_t>(1, number(value)); }},
      {"--socket-buffers", [&](auto& value) { options.socket_buffers = number(value); }},
      {"--seconds", [&](auto& value) { options.seconds = std::atof(value.c_str()); }},
      {"--port", [&](auto& value) { options.port = static_cast<std::uint16_t>(number(value)); }}};
  for (int i = 2; i < count; i += 2) {
    const auto at = known.find(arguments[i]);
    if (at == known.end() || i + 1 == count)
      throw std::runtime_error(std::string(arguments[i]) +
                               " is unknown or has no value; transfer_bench.cc begins with the options");
    at->second(arguments[i + 1]);
  }
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const Options options = parse(count, arguments);
    if (options.command == "own") own(options);
    if (options.command != "read") throw std::runtime_error("expected own or read, then its options");
    print(options, measure(options));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "transfer_bench: %s\n", error.what());
    return 1;
  }
}
