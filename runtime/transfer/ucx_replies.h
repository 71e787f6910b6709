#pragma once
// Sends an owner's replies: the bytes of its pages, directly from the arena or sealed
// (page_seal.h). All calls are on the worker's thread. Data that UCX still reads is kept until UCX
// reports completion or its worker is destroyed; so this object outlives the worker.
#include <ucp/api/ucp.h>

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/actor/metrics.h"
#include "runtime/transfer/page_seal.h"
#include "runtime/transfer/pull_wire.h"
#include "runtime/transfer/reply_budget.h"

namespace troupe {

inline constexpr unsigned request_message = 1, reply_message = 2;  // message ids of UCX

// Header of a sealed piece; the seal also authenticates `reply`.
struct SealedHeader {
  ReplyHeader reply{};
  Seal seal{};
};
inline constexpr std::size_t sealed_header_bytes = sizeof(SealedHeader);
static_assert(sealed_header_bytes == reply_header_bytes + sizeof(Seal));

class UcxReplies {
 public:
  // `key`: seals every reply with it, at most ReplyBudget::sealed_at_once pieces of a reply at a
  // time. Null: replies are not sealed.
  UcxReplies(const PageArena& arena, Incarnation self, MetricRegistry& metrics, const SealKey* key = nullptr);
  UcxReplies(const UcxReplies&) = delete;
  UcxReplies& operator=(const UcxReplies&) = delete;

  // Answers a request. `reader` is the endpoint that it came from; unsent data is bounded by room_.
  // Requests that no correct reader sends are counted as protocol errors.
  void answer(const PullRequest& request, ucp_ep_h reader);
  bool empty() const { return replies_.empty(); }
  std::size_t kept() const { return budget_.kept(); }

 private:
  using Copy = std::unique_ptr<std::uint8_t[]>;  // piece_bytes bytes
  static constexpr std::size_t spare_max = 32;
  struct Reply;
  struct Piece {
    Reply* reply = nullptr;
    SealedHeader header{};
    std::vector<ucp_dt_iov_t> parts;  // its bytes
    Copy sealed;
  };
  struct Reply {
    UcxReplies* owner = nullptr;
    std::list<Reply>::iterator self;
    ucp_ep_h reader = nullptr;
    std::size_t sending = 0, next = 0, cost = 0;
    std::vector<Piece> pieces;
  };
  static void on_sent(void* request, ucs_status_t status, void* piece);
  Reply& add(const PullRequest& request, PullStatus status, ucp_ep_h reader);
  void send_next(Reply& reply);
  bool send(Piece& piece);
  void seal(Piece& piece);
  void keep_spare(Copy copy);
  void sent(Piece& piece, bool well);

  const PageArena& arena_;
  const Incarnation self_;
  MetricRegistry& metrics_;
  std::optional<PageSealer> sealer_;
  std::list<Reply> replies_;
  std::vector<Copy> spare_;  // used from the back: the most recent buffer is still in the caches
  ReplyBudget budget_;
};

}  // namespace troupe
