#pragma once
// One UCX context and worker, and the single thread that makes all calls on them. The thread sleeps
// until the network or a command wakes it; it does not poll.
#include <ucp/api/ucp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe {

class UcxWorker {
 public:
  struct Options {
    std::string transports = "tcp";  // as UCX_TLS
    std::string devices;             // as UCX_NET_DEVICES, "eth0,eth1"; empty: all
  };
  struct Message {
    std::span<const std::uint8_t> header, body;  // any alignment; valid until the handler returns
    // Endpoint for the reply, valid until the handler returns and while a message to it is in
    // flight; null if no reply was requested.
    ucp_ep_h reply_to = nullptr;
  };
  using Handler = std::function<void(const Message&)>;
  struct RoundResult {
    bool busy = false;      // there is more to do at once
    bool finished = false;  // the thread may end
  };

  // Throws std::runtime_error for an unknown transport or device, or too few file descriptors or
  // threads.
  explicit UcxWorker(const Options& options);
  ~UcxWorker();  // requires that the thread has ended or never began
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h handle() const { return worker_; }
  Bytes address() const;

  // Sets the handler of a message id; call before start(). `malformed` is called for messages of that
  // id that do not arrive whole.
  void on(unsigned id, Handler handler, std::function<void()> malformed);
  // Starts the thread. It calls `on_round` after every round of progress, and also runs the handlers
  // and commands.
  void start(std::function<RoundResult()> on_round);
  // May be called from any thread. Commands posted after the end are not run.
  void post(std::function<void()> command);
  // Waits until `on_round` has reported `finished`.
  void join();

 private:
  struct Listener {
    Handler handler;
    std::function<void()> malformed;
  };
  static ucs_status_t receive(void* listener, const void* header, std::size_t header_size, void* body,
                              std::size_t body_size, const ucp_am_recv_param_t* param);
  void open_context(const Options& options);
  void open_worker();
  void close_all();
  void run();
  void run_commands();
  bool progress();
  void sleep();

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int wake_ = -1, poll_ = -1;
  std::map<unsigned, Listener> listeners_;
  std::function<RoundResult()> on_round_;
  std::mutex mutex_;
  std::vector<std::function<void()>> commands_;
  std::thread thread_;
};

}  // namespace troupe
