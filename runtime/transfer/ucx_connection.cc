// Connection to one process of a peer node, over the network library UCX. It keeps each message
// until UCX has sent it, and survives until UCX no longer uses it.
#include "runtime/transfer/ucx_connection.h"

#include <memory>
#include <utility>

#include "runtime/transfer/ucx_library.h"

namespace troupe {

struct UcxConnection::Sent {
  UcxConnection* connection;
  Bytes message;
};

UcxConnection::UcxConnection(ucp_worker_h worker, NodeId node, Incarnation incarnation, const Bytes& address)
    : node_(node), incarnation_(incarnation) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, this};
  const ucs_status_t status = ucx().ucp_ep_create(worker, &params, &endpoint_);
  if (status != UCS_OK) {
    endpoint_ = nullptr;
    fail(status);
  }
}

// Called from within UCX, which forbids further calls here.
void UcxConnection::on_error(void* connection, ucp_ep_h, ucs_status_t status) {
  static_cast<UcxConnection*>(connection)->fail(status);
}

void UcxConnection::fail(ucs_status_t status) {
  if (failure_.empty()) failure_ = ucx_error(status);
}

// UCX calls back only if it has not sent the message at once.
void UcxConnection::send(unsigned id, Bytes message) {
  if (failed() || closing_) return;
  auto sent = std::make_unique<Sent>(Sent{this, std::move(message)});
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = on_sent;
  param.user_data = sent.get();
  void* request =
      ucx().ucp_am_send_nbx(endpoint_, id, nullptr, 0, sent->message.data(), sent->message.size(), &param);
  if (!request) return;
  if (UCS_PTR_IS_ERR(request)) return fail(UCS_PTR_STATUS(request));
  sent.release();
  ++sending_;
}

void UcxConnection::on_sent(void* request, ucs_status_t status, void* sent_message) {
  const std::unique_ptr<Sent> sent(static_cast<Sent*>(sent_message));
  --sent->connection->sending_;
  if (status != UCS_OK) sent->connection->fail(status);
  ucx().ucp_request_free(request);
}

void UcxConnection::close() {
  if (closing_) return;
  closing_ = true;
  if (!endpoint_) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  close_request_ = ucx().ucp_ep_close_nbx(endpoint_, &param);
  if (UCS_PTR_IS_ERR(close_request_)) close_request_ = nullptr;
}

bool UcxConnection::is_gone() {
  if (close_request_ && ucx().ucp_request_check_status(close_request_) != UCS_INPROGRESS) {
    ucx().ucp_request_free(close_request_);
    close_request_ = nullptr;
  }
  return closing_ && !close_request_ && sending_ == 0;
}

}  // namespace troupe
