#pragma once
// Connection to one incarnation of one peer: a UCX endpoint and its unsent messages. All calls are
// on the worker's thread. It is closed by force, whether the peer answers or not. The object must
// then live until is_gone(), because UCX may still read the messages.
#include <ucp/api/ucp.h>

#include <cstddef>
#include <string>

#include "runtime/actor/messages.h"

namespace troupe {

class UcxConnection {
 public:
  // `address` is that of the peer's worker. Whether the peer answers shows later.
  UcxConnection(ucp_worker_h worker, NodeId node, Incarnation incarnation, const Bytes& address);
  UcxConnection(const UcxConnection&) = delete;
  UcxConnection& operator=(const UcxConnection&) = delete;

  NodeId node() const { return node_; }
  Incarnation incarnation() const { return incarnation_; }

  // The peer has ended or is unreachable: nothing arrives any more, so close the connection.
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  bool closing() const { return closing_; }
  std::size_t sending() const { return sending_; }

  // Sends a message to which the receiver can reply.
  void send(unsigned id, Bytes message);
  void close();
  bool is_gone();

 private:
  struct Sent;
  static void on_error(void* connection, ucp_ep_h endpoint, ucs_status_t status);
  static void on_sent(void* request, ucs_status_t status, void* sent);
  void fail(ucs_status_t status);

  const NodeId node_;
  const Incarnation incarnation_;
  ucp_ep_h endpoint_ = nullptr;
  std::string failure_;
  std::size_t sending_ = 0;
  bool closing_ = false;
  void* close_request_ = nullptr;
};

}  // namespace troupe
