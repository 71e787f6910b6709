#pragma once
// Test helpers: a redis-server on a free loopback port, with its own folder, that ends with this
// process at the latest; and a fake server that sends what a test wants.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/redis/redis_connection.h"
#include "runtime/testing/store_test_folder.h"

namespace troupe {

inline int listen_on_loopback(std::uint16_t& port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(listen(listener, 16) == 0);
  REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port = ntohs(address.sin_port);
  return listener;
}

class RedisTestServer {
 public:
  // Returns false, with a message, if this machine has no redis-server.
  static bool is_installed() {
    for (const char* folder : {"/usr/bin", "/usr/local/bin"})
      if (access((std::string(folder) + "/redis-server").c_str(), X_OK) == 0) return true;
    MESSAGE("skipped: this machine has no redis-server");
    return false;
  }

  explicit RedisTestServer(std::vector<std::string> options = {}) : options_(std::move(options)) {
    close(listen_on_loopback(address_.port));
    address_.host = "127.0.0.1";
    start();
  }
  ~RedisTestServer() { kill(); }
  RedisTestServer(const RedisTestServer&) = delete;
  RedisTestServer& operator=(const RedisTestServer&) = delete;

  const RedisAddress& address() const { return address_; }

  void start() {
    const pid_t parent = getpid();
    std::vector<std::string> words = {"redis-server",
                                      "--port",
                                      std::to_string(address_.port),
                                      "--bind",
                                      "127.0.0.1",
                                      "--dir",
                                      folder_.path().string(),
                                      "--save",
                                      "",
                                      "--logfile",
                                      "log"};
    words.insert(words.end(), options_.begin(), options_.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      execvp(pointers[0], pointers.data());
      _exit(127);
    }
    REQUIRE(process_ > 0);
    await();
  }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  void restart() { kill(), start(); }
  void pause() { ::kill(process_, SIGSTOP); }
  void go_on() { ::kill(process_, SIGCONT); }

  // Runs a command as an operator would, and returns its answer; a list gives "".
  std::string say(RedisCommand command) {
    const RedisDeadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    auto open = RedisConnection::open(address_, deadline);
    if (std::holds_alternative<RedisFailure>(open)) return "";
    auto answer = std::get<std::unique_ptr<RedisConnection>>(open)->run({&command, 1}, deadline);
    if (const auto* failure = std::get_if<RedisFailure>(&answer)) return failure->why;
    const RedisReply& reply = std::get<std::vector<RedisReply>>(answer).front();
    return reply.is(RedisReply::Kind::integer) ? std::to_string(reply.integer) : reply.text;
  }

 private:
  void await() {
    for (int tries = 0; tries < 1000; ++tries) {
      const std::string answer = say({"PING"});
      if (answer == "PONG" || answer.starts_with("NOAUTH")) return;
      REQUIRE(waitpid(process_, nullptr, WNOHANG) == 0);
      poll(nullptr, 0, 10);
    }
    FAIL("redis-server does not start");
  }

  const std::vector<std::string> options_;
  TestFolder folder_;
  RedisAddress address_;
  pid_t process_ = -1;
};

// Accepts one connection after the other and passes each to `serve`, which ends it by returning.
// `serve` must return when the peer closes.
class FakeServer {
 public:
  explicit FakeServer(std::function<void(int peer)> serve) : serve_(std::move(serve)) {
    address_.host = "127.0.0.1";
    listener_ = listen_on_loopback(address_.port);
    thread_ = std::thread([this] {
      for (;;) {
        const int peer = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (peer < 0) return;
        serve_(peer);
        close(peer);
      }
    });
  }
  ~FakeServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  const RedisAddress& address() const { return address_; }
  // Returns the bytes received so far; "" when the peer has closed.
  static std::string hear(int peer) {
    std::string bytes(65536, 0);
    const ssize_t got = recv(peer, bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  static bool tell(int peer, std::string_view bytes) {
    return send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

 private:
  const std::function<void(int)> serve_;
  RedisAddress address_;
  int listener_ = -1;
  std::thread thread_;
};

}  // namespace troupe
