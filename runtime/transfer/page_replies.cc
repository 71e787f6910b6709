// Answers other nodes' requests for pages over the links' connections, piece by piece.
#include "runtime/transfer/page_replies.h"

#include <algorithm>
#include <utility>

namespace troupe {

void PageReplies::answer(PullRequest request, Pending& pending) {
  PullStatus status = examine(request, self_, arena_);
  const bool sound = status == PullStatus::sent;
  const std::size_t cost = sound ? ReplyBudget::cost_of(request, false) : ReplyBudget::refusal_cost;
  const ReplyBudget::Answer answer = budget_.decide(&pending, cost);
  if (answer == ReplyBudget::Answer::nothing) return;
  if (sound && answer == ReplyBudget::Answer::refusal) status = PullStatus::overloaded;
  if (!is_sound(status)) metrics_.record(Metric::protocol_errors, 1);
  if (status != PullStatus::sent) request.pages = {};
  const std::size_t kept = status == PullStatus::sent ? cost : ReplyBudget::refusal_cost;
  budget_.keep(&pending, kept);
  pending.push_back({std::move(request), status, kept});
}

bool PageReplies::next(Pending& pending, PageConnection::Outgoing& outgoing) {
  if (pending.empty()) return false;
  Reply& reply = pending.front();
  const PullRequest& request = reply.request;
  const ReplyHeader header = encode(PullReply{request.pull, request.chunk, reply.piece, reply.status});
  outgoing.head.insert(outgoing.head.end(), header.begin(), header.end());
  const std::size_t total = request.pages.size() * request.bytes_of_page();  // 0: a refusal
  const std::size_t begin = reply.piece * piece_bytes, bytes = std::min(piece_bytes, total - begin);
  for (const PagePart& part :
       parts_of(request.pages, request.bytes_of_page(), begin, bytes, request.part_begin))
    outgoing.parts.emplace_back(reinterpret_cast<const std::uint8_t*>(arena_.page(part.page)) + part.offset,
                                part.bytes);
  if (++reply.piece >= pieces_of(total)) end_first(pending);
  return true;
}

void PageReplies::end_first(Pending& pending) {
  budget_.release(&pending, pending.front().cost);
  pending.pop_front();
}

void PageReplies::drop(Pending& pending) {
  while (!pending.empty()) end_first(pending);
}

}  // namespace troupe
