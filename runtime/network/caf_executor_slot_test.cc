#include "runtime/network/caf_executor_slot.h"

#include <doctest/doctest.h>

#include <caf/all.hpp>
#include <future>
#include <set>
#include <thread>
#include <utility>

using namespace troupe;

namespace {

template <class What>
void put(const caf::actor& to, What&& what, caf::execution_unit* unit) {
  to->enqueue(caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::forward<What>(what)), unit);
}

// Two actors that pass a number back and forth until it is zero, and record their threads.
struct PingPong {
  caf::actor_system_config config;
  std::set<std::thread::id> threads;  // no lock: one actor runs at a time
  std::promise<void> over;
  std::unique_ptr<caf::actor_system> system;
  caf::actor ping, pong;

  PingPong() {
    config.set("scheduler.policy", caf::atom("sharing"));
    config.set("scheduler.max-threads", std::size_t{1});
    system = std::make_unique<caf::actor_system>(config);
    const auto behave = [this](caf::actor* other) {
      return [this, other](caf::event_based_actor* self) -> caf::behavior {
        return {[this, other, self](int left) {
          threads.insert(std::this_thread::get_id());
          if (left == 0) return over.set_value();
          put(*other, left - 1, self->context());
        }};
      };
    };
    ping = system->spawn<caf::lazy_init>(behave(&pong));
    pong = system->spawn<caf::lazy_init>(behave(&ping));
    caf::logger::set_current_actor_system(nullptr);
  }
  ~PingPong() {
    for (caf::actor* actor : {&ping, &pong}) {
      caf::anon_send_exit(*actor, caf::exit_reason::user_shutdown);
      *actor = nullptr;
    }
    system.reset();
  }
  void play(int rounds) {
    CafExecutorSlot slot(*system);
    put(ping, rounds, &slot);
    slot.run_ready();
    over.get_future().wait();
  }
};

TEST_CASE("executor slot: the actors that its message wakes, and those that they wake, run on its thread") {
  PingPong game;
  game.play(10);
  CHECK(game.threads == std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST_CASE("executor slot: after a number of steps, further actors go to the thread pool") {
  PingPong game;
  game.play(1000);
  CHECK(game.threads.size() == 2);
  CHECK(game.threads.contains(std::this_thread::get_id()));
}

TEST_CASE("executor slot: an actor with many messages has one in each turn, or as many as the caller wants") {
  for (const std::size_t messages : {1, 16}) {
    caf::actor_system_config config;
    config.set("scheduler.policy", caf::atom("sharing"));
    config.set("scheduler.max-threads", std::size_t{1});
    caf::actor_system system(config);
    int here = 0;
    std::promise<void> over;
    const caf::actor counter = system.spawn<caf::lazy_init>(
        [&here, &over, self = std::this_thread::get_id()](caf::event_based_actor*) -> caf::behavior {
          return {[&here, &over, self](int left) {
            here += std::this_thread::get_id() == self;
            if (left == 0) over.set_value();
          }};
        });
    CafExecutorSlot slot(system);
    for (int left = 39; left >= 0; --left) put(counter, left, &slot);
    slot.run_ready(messages);
    over.get_future().wait();
    CHECK(here == (messages == 1 ? 16 : 40));
    caf::logger::set_current_actor_system(nullptr);
    caf::anon_send_exit(counter, caf::exit_reason::user_shutdown);
  }
}

}  // namespace
