#pragma once
// Shows the thread sanitizer the turns of CAF's actors. CAF is not compiled for the sanitizer, so it sees
// neither the order that mailboxes give nor who runs an actor. Here it learns that what a thread did before
// it sent a message is seen by the turn that handles it, and what a turn did by the next one. A turn also
// runs on a stack of the sanitizer's that has no frame of CAF: tests/tsan.supp hides reports with such
// frames, and would hide the races of all actors. Other builds only call the step.
#include <utility>
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
#endif

namespace troupe {

// Called before a message is put into the mailbox of `actor`.
inline void note_mailbox_send([[maybe_unused]] void* actor) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(actor);
#endif
}

#if defined(__SANITIZE_THREAD__)

// Turns of one actor.
class MailboxTurns {
 public:
  MailboxTurns() : fiber_(__tsan_create_fiber(0)) {}
  ~MailboxTurns() { __tsan_destroy_fiber(fiber_); }
  MailboxTurns(const MailboxTurns&) = delete;
  MailboxTurns& operator=(const MailboxTurns&) = delete;

  // Not inlined: its own frame is the first one of the turn.
  template <class Step>
  [[gnu::noinline]] void run(void* actor, Step&& step) {
    void* const thread = enter(actor);
    std::forward<Step>(step)();
    leave(actor, thread);
  }

 private:
  // Their own calls must not be counted on two stacks.
  [[gnu::noinline]] __attribute__((no_sanitize("thread"))) void* enter(void* actor) {
    void* const thread = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, 0);
    __tsan_acquire(actor);
    return thread;
  }
  [[gnu::noinline]] __attribute__((no_sanitize("thread"))) void leave(void* actor, void* thread) {
    __tsan_release(actor);
    __tsan_switch_to_fiber(thread, 0);
  }

  void* fiber_;
};

#else

class MailboxTurns {
 public:
  template <class Step>
  void run(void*, Step&& step) {
    std::forward<Step>(step)();
  }
};

#endif

}  // namespace troupe
