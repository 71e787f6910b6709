// Runs the network library UCX on a single thread, which makes all calls to it. The thread
// sleeps until the network or a command wakes it.
#include "runtime/transfer/ucx_worker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "kernels/base/check.h"
#include "runtime/transfer/ucx_library.h"

namespace troupe {
namespace {

constexpr int sleep_ms_max = 50;     // in case a wake-up is lost
constexpr int progress_rounds = 64;  // before commands are checked again

void expect(ucs_status_t status, const std::string& what) {
  if (status != UCS_OK) throw std::runtime_error("UCX: " + what + ": " + ucx_error(status));
}

void set(ucp_config_t* config, const char* name, const std::string& value) {
  expect(ucx().ucp_config_modify(config, name, value.c_str()),
         std::string("setting ") + name + " to " + value);
}

int descriptor(int fd, const char* what) {
  if (fd < 0) throw std::runtime_error(std::string("UCX: ") + what + ": " + std::strerror(errno));
  return fd;
}

}  // namespace

UcxWorker::UcxWorker(const Options& options) {
  try {
    open_context(options);
    open_worker();
  } catch (...) {
    close_all();
    throw;
  }
}

void UcxWorker::open_context(const Options& options) {
  ucp_config_t* config = nullptr;
  expect(ucx().ucp_config_read(nullptr, nullptr, &config), "reading its configuration");
  try {
    set(config, "TLS", options.transports);
    if (!options.devices.empty()) set(config, "NET_DEVICES", options.devices);
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    expect(ucx().ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_),
           "no context for transports \"" + options.transports + "\" on devices \"" + options.devices + "\"");
  } catch (...) {
    ucx().ucp_config_release(config);
    throw;
  }
  ucx().ucp_config_release(config);
}

void UcxWorker::open_worker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  // Created and destroyed here, used by one thread in between.
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  expect(ucx().ucp_worker_create(context_, &params, &worker_), "no worker");
  int event = -1;
  expect(ucx().ucp_worker_get_efd(worker_, &event), "no event descriptor");
  wake_ = descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
  poll_ = descriptor(epoll_create1(EPOLL_CLOEXEC), "epoll");
  for (const int fd : {event, wake_}) {
    epoll_event interest{};
    interest.events = EPOLLIN;
    interest.data.fd = fd;
    descriptor(epoll_ctl(poll_, EPOLL_CTL_ADD, fd, &interest), "epoll");
  }
}

void UcxWorker::close_all() {
  if (worker_) ucx().ucp_worker_destroy(worker_);
  if (context_) ucx().ucp_cleanup(context_);
  if (poll_ >= 0) close(poll_);
  if (wake_ >= 0) close(wake_);
}

UcxWorker::~UcxWorker() {
  TROUPE_CHECK(!thread_.joinable(), "the thread has ended before its worker is destroyed");
  close_all();
}

Bytes UcxWorker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t size = 0;
  expect(ucx().ucp_worker_get_address(worker_, &address, &size), "no address");
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(address);
  Bytes copy(bytes, bytes + size);
  ucx().ucp_worker_release_address(worker_, address);
  return copy;
}

void UcxWorker::on(unsigned id, Handler handler, std::function<void()> malformed) {
  Listener& listener = listeners_[id] = {std::move(handler), std::move(malformed)};
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                     UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  param.cb = receive;
  param.arg = &listener;
  expect(ucx().ucp_worker_set_am_recv_handler(worker_, &param), "no handler of messages");
}

// A sender may choose the rendezvous protocol, in which `body` holds no data; such messages are
// dropped.
ucs_status_t UcxWorker::receive(void* listener, const void* header, std::size_t header_size, void* body,
                                std::size_t body_size, const ucp_am_recv_param_t* param) {
  const auto& [handler, malformed] = *static_cast<Listener*>(listener);
  if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
    malformed();
    return UCS_OK;
  }
  const bool replies = param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP;
  handler({{static_cast<const std::uint8_t*>(header), header_size},
           {static_cast<const std::uint8_t*>(body), body_size},
           replies ? param->reply_ep : nullptr});
  return UCS_OK;
}

void UcxWorker::start(std::function<RoundResult()> on_round) {
  on_round_ = std::move(on_round);
  thread_ = std::thread([this] { run(); });
}

void UcxWorker::post(std::function<void()> command) {
  {
    std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  const std::uint64_t one = 1;
  // If the counter is full, the thread is awake already.
  [[maybe_unused]] const auto written = write(wake_, &one, sizeof one);
}

void UcxWorker::join() {
  if (thread_.joinable()) thread_.join();
}

void UcxWorker::run() {
  for (;;) {
    run_commands();
    const bool progressed = progress();
    const RoundResult on_round = on_round_();
    if (on_round.finished) return;
    if (progressed || on_round.busy || ucx().ucp_worker_arm(worker_) == UCS_ERR_BUSY) continue;
    sleep();
  }
}

void UcxWorker::run_commands() {
  std::vector<std::function<void()>> commands;
  {
    std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const auto& command : commands) command();
}

bool UcxWorker::progress() {
  int rounds = 0;
  while (rounds < progress_rounds && ucx().ucp_worker_progress(worker_) != 0) ++rounds;
  return rounds > 0;
}

void UcxWorker::sleep() {
  epoll_event events[2];
  epoll_wait(poll_, events, 2, sleep_ms_max);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = read(wake_, &count, sizeof count);
}

}  // namespace troupe
