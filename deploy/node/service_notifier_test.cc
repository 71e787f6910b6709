#include "deploy/node/service_notifier.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace service_notifier_test {

// The socket of a service manager, which a test reads.
class ManagerSocket {
 public:
  explicit ManagerSocket(std::string name)
      : name_(std::move(name)), socket_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(name_.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, name_.data(), name_.size());
    if (name_.front() == '@') address.sun_path[0] = '\0';
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    REQUIRE(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), bytes) == 0);
  }
  ~ManagerSocket() { ::close(socket_); }
  const std::string& name() const { return name_; }
  std::string next() {  // waits for one
    char bytes[512];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    return {bytes, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
  }

 private:
  const std::string name_;
  const int socket_;
};

}  // namespace service_notifier_test

using service_notifier_test::ManagerSocket;

TEST_SUITE("service notifier") {
  TEST_CASE("service notifier: the manager is told of each state, at a path or an abstract name") {
    const kernels::TestFolder folder;
    for (const std::string& name :
         {(folder.path() / "notify").string(), "@troupe-notify-" + std::to_string(::getpid())}) {
      CAPTURE(name);
      ManagerSocket manager(name);
      ServiceNotifier notifier(name, {});
      notifier.ready([] {});
      CHECK(manager.next() == "READY=1\nMAINPID=" + std::to_string(::getpid()) + "\nSTATUS=serves");
      notifier.reloading();
      CHECK(manager.next().starts_with("RELOADING=1\nMONOTONIC_USEC="));
      notifier.reloaded();
      CHECK(manager.next() == "READY=1");
      notifier.stopping();
      CHECK(manager.next().starts_with("STOPPING=1"));
    }
  }

  TEST_CASE("service notifier: a node that leaves asks for more time than the manager gives for a stop") {
    const kernels::TestFolder folder;
    ManagerSocket manager((folder.path() / "notify").string());
    const ServiceNotifier notifier(manager.name(), {});
    notifier.extend(std::chrono::minutes(2), "leaves: finishes its requests");
    CHECK(manager.next() == "EXTEND_TIMEOUT_USEC=120000000\nSTATUS=leaves: finishes its requests");
  }

  TEST_CASE("service notifier: the watchdog is told as long as the process answers, and not otherwise") {
    const kernels::TestFolder folder;
    ManagerSocket manager((folder.path() / "notify").string());
    ServiceNotifier notifier(manager.name(), std::chrono::milliseconds(2));
    int asked = 0;
    notifier.ready([&] {
      if (++asked <= 2) notifier.alive();  // then it is stuck
      if (asked == 4) notifier.stopping();
    });
    CHECK(manager.next().starts_with("READY=1"));
    CHECK(manager.next() == "WATCHDOG=1");
    CHECK(manager.next() == "WATCHDOG=1");
    CHECK(manager.next().starts_with("STOPPING=1"));
  }

  TEST_CASE("service notifier: without a manager, or with one that is gone, nothing happens") {
    for (const std::string& name : {std::string(), std::string("/nowhere/notify"), std::string(200, 'x')}) {
      ServiceNotifier notifier(name, std::chrono::hours(1));
      notifier.ready([] {});
      notifier.stopping();
    }
  }
}
