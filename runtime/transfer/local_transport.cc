// Copies pages between nodes that live in one process, for tests and for several nodes on one
// machine. It uses the same requests and checks as the transport over the network, but no
// sockets: the pulling thread copies the owner's memory.
#include "runtime/transfer/local_transport.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace troupe {

LocalTransport::LocalTransport(LocalNetwork& network, Incarnation incarnation, PageArena& arena,
                               MetricRegistry& metrics, std::function<bool()> responds)
    : network_(network),
      incarnation_(incarnation),
      arena_(arena),
      metrics_(metrics),
      responds_(std::move(responds)),
      pulls_(incarnation, arena) {
  std::lock_guard lock(network_.mutex_);
  address_ = network_.next_++;
  network_.owners_[address_] = this;
}

LocalTransport::~LocalTransport() {
  {
    std::lock_guard lock(network_.mutex_);  // waits for threads that read here
    network_.owners_.erase(address_);
  }
  pulls_.stop();
  pulls_.await_closed();
}

Bytes LocalTransport::address() const {
  Bytes bytes(sizeof address_);
  std::memcpy(bytes.data(), &address_, sizeof address_);
  return bytes;
}

void LocalTransport::meet(NodeId node, Incarnation incarnation, Bytes address) {
  if (address.size() != sizeof address_) {
    metrics_.record(Metric::protocol_errors, 1);
    address.clear();
  }
  pulls_.meet(node, incarnation, std::move(address));
}

void LocalTransport::lose(NodeId node, Incarnation incarnation) { pulls_.lose(node, incarnation); }

void LocalTransport::stop() { pulls_.stop(); }

std::variant<PullResult, Refusal> LocalTransport::pull(const PullBlocks& work) {
  auto opened = pulls_.open(work);
  if (auto* refusal = std::get_if<Refusal>(&opened)) return *refusal;
  auto& [pull, address] = std::get<PullTable::Open>(opened);
  std::uint64_t owner = 0;
  std::memcpy(&owner, address.data(), sizeof owner);  // open() refuses a peer without an address
  // next_request() returns nothing once the pull has ended.
  while (auto request = pull->next_request())
    if (!fetch(owner, *request, *pull))
      pull->end(pull_refused("peer_lost", work.node, "has ended", "a peer that lives"));
  auto outcome = pulls_.await(work, *pull);
  pulls_.close(pull);
  return outcome;
}

bool LocalTransport::fetch(std::uint64_t owner, const PullRequest& request, IncomingPull& pull) const {
  std::shared_lock lock(network_.mutex_);
  const auto at = network_.owners_.find(owner);
  if (at == network_.owners_.end()) return false;
  at->second->send(request, pull);
  return true;
}

// Answers a request (for a chunk of pages, in pieces of bounded size) on the pulling node's thread.
// A piece within one page is copied straight to its destination; one that spans pages is assembled
// first.
void LocalTransport::send(const PullRequest& request, IncomingPull& to) const {
  // For tests: this node seems to hang, and the pull ends at its deadline.
  if (responds_ && !responds_()) return;
  PullReply reply{request.pull, request.chunk, 0, examine(request, incarnation_, arena_)};
  if (!is_sound(reply.status)) metrics_.record(Metric::protocol_errors, 1);
  if (reply.status != PullStatus::sent) {
    to.land(reply, {});
    return;
  }
  const std::size_t total = request.pages.size() * request.bytes_of_page();
  for (std::size_t begin = 0; begin < total; begin += piece_bytes, ++reply.piece) {
    const std::size_t size = std::min(piece_bytes, total - begin);
    std::vector<std::uint8_t> together;
    for (const PagePart& part :
         parts_of(request.pages, request.bytes_of_page(), begin, size, request.part_begin)) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(arena_.page(part.page) + part.offset);
      if (part.bytes == size) {
        to.land(reply, {bytes, size});
      } else {
        together.insert(together.end(), bytes, bytes + part.bytes);
      }
    }
    if (!together.empty()) to.land(reply, together);
  }
}

}  // namespace troupe
