#pragma once
// Test helper: an etcd of the test's own on loopback, in its own folder, deleted afterwards.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/coordination/etcd_coordination.h"
#include "runtime/testing/store_test_folder.h"

namespace troupe {

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Returns a socket that listens on a free port of loopback.
inline int listen_somewhere(std::uint16_t& port) {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(listening, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listening, 16) != 0 ||
      getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no free port on loopback");
  port = ntohs(address.sin_port);
  return listening;
}

inline std::uint16_t free_port() {
  std::uint16_t port = 0;
  close(listen_somewhere(port));
  return port;
}

class EtcdServer {
 public:
  // Tries other ports if one is taken meanwhile. `tls` is for clients, with `arguments` that name
  // the server's certificates; the endpoint is then at localhost.
  explicit EtcdServer(std::vector<std::string> arguments = {}, std::shared_ptr<const TlsClient> tls = nullptr)
      : more_(std::move(arguments)), tls_(std::move(tls)) {
    for (int tries = 0; tries < 3 && !started_ && here_; ++tries) {
      const std::uint16_t port = free_port();
      client_ = tls_ ? "https://127.0.0.1:" + std::to_string(port) : url(port);
      endpoint_ = tls_ ? "https://localhost:" + std::to_string(port) : client_;
      peer_ = url(free_port());
      start();
    }
    if (here_ && !started_) throw std::runtime_error("etcd does not start");
  }
  ~EtcdServer() { crash(); }
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  bool here() const { return here_; }  // false = this machine has no etcd
  const std::string& endpoint() const { return endpoint_; }

  // Starts etcd, with its earlier data.
  void start() {
    child_ = fork();
    if (child_ == 0) become_etcd();
    started_ = wait_for_answer();
  }
  void crash() {
    if (child_ > 0) kill(child_, SIGKILL);
    if (child_ > 0) waitpid(child_, nullptr, 0);
    child_ = 0;
  }
  // While it is down: loses its data, keeps a copy of them, or goes back to the copy.
  void empty() const { std::filesystem::remove_all(data()); }
  void copy() const { std::filesystem::copy(data(), kept(), std::filesystem::copy_options::recursive); }
  void restore() const {
    empty();
    std::filesystem::copy(kept(), data(), std::filesystem::copy_options::recursive);
  }
  void freeze() {
    kill(child_, SIGSTOP);
    waitpid(child_, nullptr, WUNTRACED);  // until it has stopped
  }
  void thaw() { kill(child_, SIGCONT); }

 private:
  std::string data() const { return folder_.path() / "data"; }
  std::string kept() const { return folder_.path() / "kept"; }
  static std::string url(std::uint16_t port) { return "http://127.0.0.1:" + std::to_string(port); }

  // Uses half of etcd's default timeouts, so that it grants leases of one second.
  [[noreturn]] void become_etcd() const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::string data = this->data(), log = folder_.path() / "log";
    std::vector<std::string> arguments{"etcd",
                                       "--name=t",
                                       "--data-dir=" + data,
                                       "--listen-client-urls=" + client_,
                                       "--advertise-client-urls=" + client_,
                                       "--listen-peer-urls=" + peer_,
                                       "--initial-advertise-peer-urls=" + peer_,
                                       "--initial-cluster=t=" + peer_,
                                       "--heartbeat-interval=50",
                                       "--election-timeout=500"};
    arguments.insert(arguments.end(), more_.begin(), more_.end());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const int words = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(words, STDOUT_FILENO);
    dup2(words, STDERR_FILENO);
    execvp("etcd", pointers.data());
    _exit(127);
  }

  bool wait_for_answer() {
    EtcdCoordination asking({.endpoints = endpoint_, .limit_us = 1'000'000, .tls = tls_});
    for (int tries = 0; tries < 2'000; ++tries) {
      int status = 0;
      if (waitpid(child_, &status, WNOHANG) == child_) {
        here_ = !(WIFEXITED(status) && WEXITSTATUS(status) == 127);
        child_ = 0;
        return false;
      }
      const auto answer = asking.ask({ReadKey{"ready"}});
      const auto* refusal = std::get_if<Refusal>(&answer);
      if (!refusal || refusal->what.find("user name is empty") != std::string::npos)
        return true;  // etcd requires a login
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    crash();
    return false;
  }

  const TestFolder folder_;
  const std::vector<std::string> more_;
  const std::shared_ptr<const TlsClient> tls_;
  std::string client_, peer_, endpoint_;
  pid_t child_ = 0;
  bool here_ = true, started_ = false;
};

// Returns an etcd shared by all test cases that do not disturb it; they use different prefixes.
inline EtcdServer& shared_etcd() {
  static EtcdServer server;
  return server;
}

}  // namespace troupe
