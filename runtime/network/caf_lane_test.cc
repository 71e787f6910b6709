#include "runtime/network/caf_lane.h"

#include <doctest/doctest.h>

#include <caf/all.hpp>
#include <future>
#include <set>
#include <thread>

using namespace troupe;

namespace {

// Two actors that pass a number to and fro until it is zero, and note on which threads they do.
struct PingPong {
  caf::actor_system_config config;
  std::set<std::thread::id> threads;  // one actor runs at a time
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
          (*other)->enqueue(caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, left - 1),
                            self->context());
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
    CafLane lane(*system);
    ping->enqueue(caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, rounds), &lane);
    lane.run_ready();
    over.get_future().wait();
  }
};

TEST_CASE("a lane runs the actors that its message wakes, and those that they wake, on its own thread") {
  PingPong game;
  game.play(10);
  CHECK(game.threads == std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST_CASE("after some turns a lane leaves what is ready to the pool") {
  PingPong game;
  game.play(1000);
  CHECK(game.threads.size() == 2);
  CHECK(game.threads.contains(std::this_thread::get_id()));
}

}  // namespace
