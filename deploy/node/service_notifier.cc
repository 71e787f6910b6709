// Sends the states of a service to its manager's socket, one datagram each.
#include "deploy/node/service_notifier.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace troupe::deploy {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::int64_t number_in(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

// The variables of a watchdog may be those of the process that started this one.
std::chrono::microseconds watchdog_of_environment() {
  const std::string pid = environment("WATCHDOG_PID");
  if (!pid.empty() && number_in(pid) != ::getpid()) return {};
  return std::chrono::microseconds(std::max<std::int64_t>(number_in(environment("WATCHDOG_USEC")), 0));
}

std::int64_t monotonic_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

ServiceNotifier::ServiceNotifier()
    : ServiceNotifier(environment("NOTIFY_SOCKET"), watchdog_of_environment()) {}

ServiceNotifier::ServiceNotifier(std::string socket, Microseconds watchdog)
    : socket_(std::move(socket)), watchdog_(watchdog) {}

void ServiceNotifier::stop() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  end_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ServiceNotifier::ready(std::function<void()> ask) {
  send("READY=1\nMAINPID=" + std::to_string(::getpid()) + "\nSTATUS=serves");
  if (socket_.empty() || watchdog_.count() == 0 || thread_.joinable()) return;
  thread_ = std::thread([this, ask = std::move(ask)] { watch(ask); });
}

void ServiceNotifier::reloading() const {
  send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(monotonic_us()));
}
void ServiceNotifier::reloaded() const { send("READY=1"); }
void ServiceNotifier::stopping() const { send("STOPPING=1\nSTATUS=drains"); }
void ServiceNotifier::extend(Microseconds time, const std::string& what) const {
  send("EXTEND_TIMEOUT_USEC=" + std::to_string(time.count()) + "\nSTATUS=" + what);
}
void ServiceNotifier::alive() const { send("WATCHDOG=1"); }

void ServiceNotifier::watch(const std::function<void()>& ask) {
  for (std::unique_lock lock(mutex_); !end_.wait_for(lock, watchdog_ / 2, [this] { return ended_; });) {
    lock.unlock();
    ask();
    lock.lock();
  }
}

// A manager that does not read must not hold up the node, so an error is ignored.
void ServiceNotifier::send(const std::string& message) const {
  sockaddr_un address{};
  if (socket_.empty() || socket_.size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_.front() == '@') address.sun_path[0] = '\0';
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const int to = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (to < 0) return;
  (void)::sendto(to, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&address), bytes);
  ::close(to);
}

}  // namespace troupe::deploy
