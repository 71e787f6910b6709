#pragma once
// An owner's replies over PageConnections: decides about each request as UcxReplies does
// (reply_budget.h), and makes the pieces of a reply one at a time, when its reader's socket takes
// them. The bytes are read in the arena. All calls are on one thread.
#include <cstddef>
#include <deque>

#include "runtime/actor/metrics.h"
#include "runtime/transfer/page_connection.h"
#include "runtime/transfer/pull_wire.h"
#include "runtime/transfer/reply_budget.h"

namespace troupe {

class PageReplies {
 public:
  PageReplies(const PageArena& arena, Incarnation self, MetricRegistry& metrics)
      : arena_(arena), self_(self), metrics_(metrics) {}

  struct Reply {
    PullRequest request;
    PullStatus status = PullStatus::sent;
    std::size_t cost = 0;
    std::uint32_t piece = 0;  // next to send
  };
  // Replies that one reader has not been sent; its address identifies the reader.
  using Pending = std::deque<Reply>;

  // Adds the reply to a request. Requests that no correct reader sends are counted as protocol
  // errors. A reader that has too much pending is refused, or gets nothing.
  void answer(PullRequest request, Pending& pending);
  // Appends the next piece or refusal; false: nothing is pending.
  bool next(Pending& pending, PageConnection::Outgoing& outgoing);
  // Must be called before `pending` is destroyed.
  void drop(Pending& pending);
  std::size_t kept() const { return budget_.kept(); }

 private:
  void end_first(Pending& pending);

  const PageArena& arena_;
  const Incarnation self_;
  MetricRegistry& metrics_;
  ReplyBudget budget_;
};

}  // namespace troupe
