// Answers other nodes' requests for pages over the network library UCX. Bytes go directly from
// the pool's memory, or encrypted from a copy, and stay valid until UCX has sent them.
#include "runtime/transfer/ucx_replies.h"

#include <algorithm>
#include <utility>

#include "runtime/transfer/ucx_library.h"

namespace troupe {

UcxReplies::UcxReplies(const PageArena& arena, Incarnation self, MetricRegistry& metrics, const SealKey* key)
    : arena_(arena),
      self_(self),
      metrics_(metrics),
      budget_(key ? ReplyBudget::sealed_limits : ReplyBudget::plain_limits) {
  if (key) sealer_.emplace(*key, PageSealer::Nonces::counted);
}

void UcxReplies::answer(const PullRequest& request, ucp_ep_h reader) {
  PullStatus status = examine(request, self_, arena_);
  const bool sound = status == PullStatus::sent;
  const std::size_t cost =
      sound ? ReplyBudget::cost_of(request, sealer_.has_value()) : ReplyBudget::refusal_cost;
  const ReplyBudget::Answer answer = budget_.decide(reader, cost);
  if (answer == ReplyBudget::Answer::nothing) return;
  if (sound && answer == ReplyBudget::Answer::refusal) status = PullStatus::overloaded;
  if (!is_sound(status)) metrics_.record(Metric::protocol_errors, 1);
  Reply& reply = add(request, status, reader);
  reply.cost = status == PullStatus::sent ? cost : ReplyBudget::refusal_cost;
  budget_.keep(reader, reply.cost);
  send_next(reply);
}

UcxReplies::Reply& UcxReplies::add(const PullRequest& request, PullStatus status, ucp_ep_h reader) {
  const auto self = replies_.emplace(replies_.end());
  self->owner = this;
  self->self = self;
  self->reader = reader;
  const bool bytes = status == PullStatus::sent;
  const std::size_t total = bytes ? request.pages.size() * request.bytes_of_page() : 0;
  self->pieces.resize(std::max<std::size_t>(pieces_of(total), 1));
  for (std::size_t at = 0; at < self->pieces.size(); ++at) {
    Piece& piece = self->pieces[at];
    piece.reply = &*self;
    piece.header.reply =
        encode(PullReply{request.pull, request.chunk, static_cast<std::uint32_t>(at), status});
    const std::size_t begin = at * piece_bytes;
    for (const PagePart& part : parts_of(request.pages, request.bytes_of_page(), begin,
                                         std::min(piece_bytes, total - begin), request.part_begin))
      piece.parts.push_back({arena_.page(part.page) + part.offset, part.bytes});
  }
  return *self;
}

// Sends all pieces that may be in flight now. Sealed pieces wait until earlier ones have been sent.
void UcxReplies::send_next(Reply& reply) {
  ++reply.sending;  // keeps the reply alive during this function
  while (reply.next < reply.pieces.size() && (!sealer_ || reply.sending <= ReplyBudget::sealed_at_once)) {
    Piece& piece = reply.pieces[reply.next++];
    if (sealer_) seal(piece);
    // The endpoint has failed: the reader needs no more.
    if (!send(piece)) reply.next = reply.pieces.size();
  }
  if (--reply.sending > 0) return;
  budget_.release(reply.reader, reply.cost);
  replies_.erase(reply.self);
}

void UcxReplies::seal(Piece& piece) {
  if (spare_.empty()) spare_.push_back(std::make_unique_for_overwrite<std::uint8_t[]>(piece_bytes));
  piece.sealed = std::move(spare_.back());
  spare_.pop_back();
  std::vector<PageSealer::Part> parts;
  std::size_t bytes = 0;
  for (const ucp_dt_iov_t& part : piece.parts) {
    parts.emplace_back(static_cast<const std::uint8_t*>(part.buffer), part.length);
    bytes += part.length;
  }
  piece.header.seal = sealer_->seal(piece.header.reply, parts, piece.sealed.get());
  piece.parts.assign(1, {piece.sealed.get(), bytes});
}

void UcxReplies::keep_spare(Copy copy) {
  if (copy && spare_.size() < spare_max) spare_.push_back(std::move(copy));
}

// Returns false if the piece cannot be sent. UCX calls back only for pieces that it has not sent at
// once.
bool UcxReplies::send(Piece& piece) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                       UCP_OP_ATTR_FIELD_DATATYPE;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.datatype = UCP_DATATYPE_IOV;
  param.cb.send = on_sent;
  param.user_data = &piece;
  if (piece.parts.empty()) piece.parts.push_back({&piece.header, 0});  // UCX aborts on an empty list
  void* request = ucx().ucp_am_send_nbx(piece.reply->reader, reply_message, &piece.header,
                                        sealer_ ? sealed_header_bytes : reply_header_bytes,
                                        piece.parts.data(), piece.parts.size(), &param);
  if (request && !UCS_PTR_IS_ERR(request)) {
    ++piece.reply->sending;
    return true;
  }
  keep_spare(std::move(piece.sealed));
  return !UCS_PTR_IS_ERR(request);
}

void UcxReplies::on_sent(void* request, ucs_status_t status, void* user_data) {
  Piece& piece = *static_cast<Piece*>(user_data);
  ucx().ucp_request_free(request);
  piece.reply->owner->sent(piece, status == UCS_OK);
}

void UcxReplies::sent(Piece& piece, bool well) {
  keep_spare(std::move(piece.sealed));
  Reply& reply = *piece.reply;
  if (!well) reply.next = reply.pieces.size();
  --reply.sending;
  send_next(reply);
}

}  // namespace troupe
