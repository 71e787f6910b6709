#include "runtime/transfer/ucx_replies.h"

#include <algorithm>

#include "runtime/transfer/ucx_library.h"

namespace troupe {

void UcxReplies::answer(const PullRequest& request, ucp_ep_h reader) {
  PullStatus status = examine(request, self_, arena_);
  const bool sound = status == PullStatus::sent;
  const std::size_t cost = sound ? ReplyRoom::cost_of(request) : ReplyRoom::refusal_cost;
  const ReplyRoom::Answer answer = room_.answer_for(reader, cost);
  if (answer == ReplyRoom::Answer::nothing) return;
  if (sound && answer == ReplyRoom::Answer::refusal) status = PullStatus::overloaded;
  if (!is_sound(status)) metrics_.record(Metric::protocol_errors, 1);
  Reply& reply = add(request, status, reader);
  reply.cost = status == PullStatus::sent ? cost : ReplyRoom::refusal_cost;
  room_.keep(reader, reply.cost);
  send(reply);
}

UcxReplies::Reply& UcxReplies::add(const PullRequest& request, PullStatus status, ucp_ep_h reader) {
  const auto self = replies_.emplace(replies_.end());
  self->owner = this;
  self->self = self;
  self->reader = reader;
  const bool bytes = status == PullStatus::sent;
  const std::size_t total = bytes ? request.pages.size() * request.bytes_of_page() : 0;
  const std::size_t pieces = std::max<std::size_t>(pieces_of(total), 1);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    self->headers.push_back(
        encode(PullReply{request.pull, request.chunk, static_cast<std::uint32_t>(piece), status}));
    auto& iov = self->pieces.emplace_back();
    const std::size_t begin = piece * piece_bytes;
    for (const PagePart& part :
         parts_of(request.pages, request.bytes_of_page(), begin, std::min(piece_bytes, total - begin), request.part_begin))
      iov.push_back({arena_.page(part.page) + part.offset, part.bytes});
    if (iov.empty()) iov.push_back({self->headers.data(), 0});  // UCX aborts on a list of nothing
  }
  return *self;
}

// UCX calls back only for what it has not sent at once. A reader whose endpoint fails needs no more.
void UcxReplies::send(Reply& reply) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                       UCP_OP_ATTR_FIELD_DATATYPE;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.datatype = UCP_DATATYPE_IOV;
  param.cb.send = on_sent;
  param.user_data = &reply;
  ++reply.sending;  // for this function
  for (std::size_t piece = 0; piece < reply.pieces.size(); ++piece) {
    const auto& iov = reply.pieces[piece];
    void* request = ucx().ucp_am_send_nbx(reply.reader, reply_message, reply.headers[piece].data(),
                                          reply_header_bytes, iov.data(), iov.size(), &param);
    if (UCS_PTR_IS_ERR(request)) break;
    if (request) ++reply.sending;
  }
  sent(reply);
}

void UcxReplies::on_sent(void* request, ucs_status_t, void* user_data) {
  Reply& reply = *static_cast<Reply*>(user_data);
  ucx().ucp_request_free(request);
  reply.owner->sent(reply);
}

void UcxReplies::sent(Reply& reply) {
  if (--reply.sending > 0) return;
  room_.let_go(reply.reader, reply.cost);
  replies_.erase(reply.self);
}

}  // namespace troupe
