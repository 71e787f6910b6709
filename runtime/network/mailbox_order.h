#pragma once
// Tells the thread sanitizer of the order that the mailboxes of CAF give: what a thread did before it
// sent a message is seen by the thread that handles it, and what a handler did by the next one. CAF is
// not compiled for the sanitizer, so it cannot see that itself. Does nothing in other builds.
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace troupe {

// Called before a message is put into the mailbox of `actor`.
inline void note_mailbox_send([[maybe_unused]] void* actor) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(actor);
#endif
}

// Lives while `actor` handles a message.
class MailboxTurn {
 public:
  explicit MailboxTurn(void* actor) : actor_(actor) {
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(actor_);
#endif
  }
  ~MailboxTurn() { note_mailbox_send(actor_); }
  MailboxTurn(const MailboxTurn&) = delete;
  MailboxTurn& operator=(const MailboxTurn&) = delete;

 private:
  void* actor_;
};

}  // namespace troupe
