// Runs the thread that moves pages over the links' connections: it waits for sockets with epoll,
// and for commands of other threads.
#include "runtime/transfer/page_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/base/check.h"

namespace troupe {
namespace {

constexpr std::uint64_t key_of_commands = 0, key_of_timer = UINT64_MAX;  // keys of sockets lie between
constexpr int events_at_once = 64;

int opened_or_throw(int fd, const char* what) {
  if (fd < 0)
    throw std::runtime_error(std::string("transfer of pages: ") + what + ": " + std::strerror(errno));
  return fd;
}

}  // namespace

PageCommands::PageCommands() : wake_(opened_or_throw(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {}

PageCommands::~PageCommands() { close(wake_); }

void PageCommands::post(std::function<void()> command) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(command));
  }
  const std::uint64_t one = 1;
  // If the counter is full, the thread is awake already.
  [[maybe_unused]] const auto written = write(wake_, &one, sizeof one);
}

void PageCommands::run_all() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto reset = eventfd_read(wake_, &count);
  std::vector<std::function<void()>> commands;
  {
    std::lock_guard lock(mutex_);
    commands.swap(waiting_);
  }
  for (const auto& command : commands) command();
}

PageLoop::PageLoop()
    : commands_(std::make_shared<PageCommands>()),
      poll_(opened_or_throw(epoll_create1(EPOLL_CLOEXEC), "epoll")) {
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (timer_ < 0) close(poll_);  // the destructor is not called
  opened_or_throw(timer_, "timerfd");
  watch(commands_->wake_, key_of_commands);
  watch(timer_, key_of_timer);
}

PageLoop::~PageLoop() {
  TROUPE_CHECK(!thread_.joinable(), "the thread has ended before its loop is destroyed");
  close(timer_);
  close(poll_);
}

void PageLoop::start(std::function<void(std::uint64_t)> on_ready, std::function<Round()> on_round) {
  on_ready_ = std::move(on_ready);
  on_round_ = std::move(on_round);
  thread_ = std::thread([this] { run(); });
}

void PageLoop::join() {
  if (thread_.joinable()) thread_.join();
}

// The steady clock is CLOCK_MONOTONIC. A time of 0 would stop the timer.
void PageLoop::wake_at(std::chrono::steady_clock::time_point at) {
  constexpr std::int64_t second = 1'000'000'000;
  std::lock_guard lock(timer_mutex_);
  if (timer_at_ && *timer_at_ <= at) return;
  timer_at_ = at;
  const std::int64_t ns = std::max<std::int64_t>(
      1, std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count());
  itimerspec when{};
  when.it_value = {ns / second, ns % second};
  timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
}

void PageLoop::clear_timer() {
  std::lock_guard lock(timer_mutex_);
  std::uint64_t count = 0;
  // Nothing is read if the timer was set anew meanwhile: then it is still needed.
  if (read(timer_, &count, sizeof count) > 0) timer_at_.reset();
}

// A full table of the kernel's leaves the socket unwatched: its pulls then end at their deadlines.
void PageLoop::watch(int fd, std::uint64_t key) {
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.u64 = key;
  epoll_ctl(poll_, EPOLL_CTL_ADD, fd, &interest);
}

void PageLoop::change(int fd, std::uint64_t key, bool writes) {
  epoll_event interest{};
  interest.events = writes ? EPOLLIN | EPOLLOUT : EPOLLIN;
  interest.data.u64 = key;
  epoll_ctl(poll_, EPOLL_CTL_MOD, fd, &interest);
}

void PageLoop::run() {
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  std::array<epoll_event, events_at_once> events;
  bool busy = false;
  for (;;) {
    const int count = epoll_wait(poll_, events.data(), events_at_once, busy ? 0 : -1);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t key = events[i].data.u64;
      if (key == key_of_timer) clear_timer();
      if (key != key_of_timer && key != key_of_commands) on_ready_(key);
    }
    commands_->run_all();
    const Round round = on_round_();
    if (round.finished) return;
    busy = round.busy;
  }
}

}  // namespace troupe
