// A transport peer that sends a message of 64 MiB in UCX's own form. UCX assembles a message before
// anyone can refuse it: it allocates the size that was sent, once, without a bound of ours
// (docs/guides/tls-keys-tenants.md). Our code then refuses the message.
#include <sys/mman.h>

#include <chrono>
#include <thread>

#include "runtime/pool/page_arena.h"
#include "runtime/transfer/pull_wire.h"
#include "runtime/transfer/ucx_address.h"
#include "runtime/transfer/ucx_library.h"
#include "runtime/transfer/ucx_replies.h"
#include "runtime/transfer/ucx_transport.h"
#include "runtime/transfer/ucx_worker.h"
#include "tests/readers/attack.h"

namespace troupe::readers {
namespace {

constexpr std::size_t message_bytes = 64 * mib;

// Memory that is not from malloc.
struct Message {
  void* bytes = mmap(nullptr, message_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ~Message() { munmap(bytes, message_bytes); }
};

class Sender {
 public:
  explicit Sender(const Bytes& to) {
    worker_.start([this] { return UcxWorker::RoundResult{true, ended_}; });
    worker_.post([this, to] { send(to); });
  }
  ~Sender() {
    worker_.post([this] { ended_ = true; });
    worker_.join();
  }

 private:
  void send(const Bytes& to) {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(to.data());
    ucp_ep_h endpoint = nullptr;
    if (ucx().ucp_ep_create(worker_.handle(), &params, &endpoint) != UCS_OK) return;
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    how.flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;
    ucx().ucp_am_send_nbx(endpoint, request_message, nullptr, 0, message_.bytes, message_bytes, &how);
  }

  Message message_;
  bool ended_ = false;  // set by the worker's thread
  UcxWorker worker_{{}};
};

std::string send_much() {
  PageArena arena(4096, 8);
  MetricRegistry metrics;
  UcxTransport transport({}, 1, arena, metrics);
  const Bytes packed = transport.address();
  const Sender sender(Bytes(packed.begin() + 16, packed.end()));
  for (int i = 0; i < 300 && metrics.value(Metric::protocol_errors) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return metrics.value(Metric::protocol_errors) > 0 ? "refused" : "neither taken nor refused";
}

}  // namespace

std::vector<Attack> ucx_attacks() {
  return {{"ucx", "a message of 64 MiB", message_bytes + 24 * mib, send_much, {"refused"}}};
}

}  // namespace troupe::readers
