#pragma once
// Tells the service manager (systemd, Type=notify) when the node serves, reloads and stops, and while it
// runs that it is alive. Without a manager it does nothing.
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace troupe::deploy {

class ServiceNotifier {
 public:
  using Microseconds = std::chrono::microseconds;

  ServiceNotifier();  // with the manager that the environment names (sd_notify(3), sd_watchdog_enabled(3))
  // `socket`: path of the manager's socket, or @ and an abstract name; "" = there is no manager.
  // `watchdog`: time within which it restarts a silent process; 0 = it does not.
  ServiceNotifier(std::string socket, Microseconds watchdog);
  ~ServiceNotifier() { stop(); }

  // `ask` is called at half of the watchdog's time. It must have the HTTP server's thread call
  // `alive`, so that a process whose server is stuck stays silent.
  void ready(std::function<void()> ask);
  void reloading() const;
  void reloaded() const;
  void stopping() const;
  // Asks for this much time from now on, if the manager would end the process earlier (TimeoutStopSec).
  // `what` is done meanwhile.
  void extend(Microseconds time, const std::string& what) const;
  void alive() const;  // callable from any thread
  void stop();         // calls `ask` no more

 private:
  void send(const std::string& message) const;
  void watch(const std::function<void()>& ask);

  const std::string socket_;
  const Microseconds watchdog_;
  std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace troupe::deploy
