#pragma once
// What an owner sends: the bytes of its pages, straight from the arena. All calls on the worker's thread.
// What UCX still reads is kept until it says so, or until its worker is destroyed: this outlives the worker.
#include <ucp/api/ucp.h>

#include <cstddef>
#include <list>
#include <vector>

#include "runtime/actor/metrics.h"
#include "runtime/transfer/pull_wire.h"
#include "runtime/transfer/reply_room.h"

namespace troupe {

inline constexpr unsigned request_message = 1, reply_message = 2;  // of UCX

class UcxReplies {
 public:
  UcxReplies(const PageArena& arena, Incarnation self, MetricRegistry& metrics)
      : arena_(arena), self_(self), metrics_(metrics) {}
  UcxReplies(const UcxReplies&) = delete;
  UcxReplies& operator=(const UcxReplies&) = delete;

  // `reader` is where the request came from; what it does not take is bounded by the room. What no reader of this cluster
  // asks for is counted.
  void answer(const PullRequest& request, ucp_ep_h reader);
  bool empty() const { return replies_.empty(); }
  std::size_t kept() const { return room_.kept(); }

 private:
  struct Reply {
    UcxReplies* owner = nullptr;
    std::list<Reply>::iterator self;
    ucp_ep_h reader = nullptr;
    std::size_t sending = 0, cost = 0;
    std::vector<ReplyHeader> headers;               // per piece
    std::vector<std::vector<ucp_dt_iov_t>> pieces;  // where its bytes lie
  };
  static void on_sent(void* request, ucs_status_t status, void* reply);
  Reply& add(const PullRequest& request, PullStatus status, ucp_ep_h reader);
  void send(Reply& reply);
  void sent(Reply& reply);

  const PageArena& arena_;
  const Incarnation self_;
  MetricRegistry& metrics_;
  std::list<Reply> replies_;
  ReplyRoom room_;
};

}  // namespace troupe
