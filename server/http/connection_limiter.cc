// Decides which connection closes when too many are open or they hold too much memory. The client
// address with the most connections pays first.
#include "server/http/connection_limiter.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe::server {

namespace {

std::uint64_t number_of(std::span<const unsigned char> bytes) {
  std::uint64_t number = 0;
  for (const unsigned char byte : bytes) number = number << 8 | byte;
  return number;
}

}  // namespace

Origin origin_of(std::span<const unsigned char> address) {
  constexpr unsigned char v4_in_v6[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (address.size() == 16 && std::ranges::equal(address.first(12), v4_in_v6)) address = address.subspan(12);
  return number_of(address.first(std::min<std::size_t>(address.size(), 8)));
}

bool ConnectionLimiter::has_capacity(Origin from) const {
  if (connections_.size() >= limits_.connections_max) return false;
  const auto address = addresses_.find(from);
  return address == addresses_.end() ||
         address->second.connection_count < limits_.connections_per_address_max;
}

std::optional<ConnectionLimiter::ConnectionId> ConnectionLimiter::connection_to_close_for(Origin from) const {
  const auto address = addresses_.find(from);
  if (address == addresses_.end() || address->second.connection_count < limits_.connections_per_address_max)
    return connection_to_close();
  if (address->second.waiting.empty()) return std::nullopt;
  return address->second.waiting.front().connection_id;
}

std::optional<ConnectionLimiter::ConnectionId> ConnectionLimiter::connection_to_close() const {
  const AddressConnections* most = nullptr;
  for (const auto& [from, address] : addresses_) {
    if (address.waiting.empty()) continue;
    const bool longer = most && address.connection_count == most->connection_count &&
                        address.waiting.front().since < most->waiting.front().since;
    if (!most || address.connection_count > most->connection_count || longer) most = &address;
  }
  if (!most) return std::nullopt;
  return most->waiting.front().connection_id;
}

std::optional<ConnectionLimiter::ConnectionId> ConnectionLimiter::connection_to_close_for_bytes() const {
  if (bytes_ <= limits_.bytes_max) return std::nullopt;
  const AddressConnections* most = nullptr;
  for (const auto& [from, address] : addresses_)
    if (!address.waiting.empty() && (!most || address.bytes > most->bytes)) most = &address;
  if (!most) return std::nullopt;
  const auto bytes_of = [&](const Waiting& waiting) { return connections_.at(waiting.connection_id).bytes; };
  return std::ranges::max_element(most->waiting, {}, bytes_of)->connection_id;
}

bool ConnectionLimiter::keeps_more(ConnectionId connection_id, ConnectionId other) const {
  const auto one = connections_.find(connection_id), two = connections_.find(other);
  if (one == connections_.end() || two == connections_.end()) return false;
  if (one->second.from == two->second.from) return one->second.bytes > two->second.bytes;
  return addresses_.at(one->second.from).bytes > addresses_.at(two->second.from).bytes;
}

void ConnectionLimiter::enter(ConnectionId connection_id, Origin from) {
  const bool is_new = connections_.emplace(connection_id, ConnectionState{from, 0, {}}).second;
  TROUPE_CHECK(is_new, "a connection enters once");
  ++addresses_[from].connection_count;
  waits(connection_id);
}

void ConnectionLimiter::leave(ConnectionId connection_id) {
  const auto found = connections_.find(connection_id);
  if (found == connections_.end()) return;
  set_bytes(connection_id, 0);
  const auto address = addresses_.find(found->second.from);
  stop_waiting(found->second, address->second);
  if (--address->second.connection_count == 0) addresses_.erase(address);
  connections_.erase(found);
}

void ConnectionLimiter::waits(ConnectionId connection_id) {
  const auto found = connections_.find(connection_id);
  if (found == connections_.end()) return;
  AddressConnections& address = addresses_.at(found->second.from);
  stop_waiting(found->second, address);
  found->second.waiting = address.waiting.insert(address.waiting.end(), {connection_id, ++now_});
}

void ConnectionLimiter::mark_serving(ConnectionId connection_id) {
  const auto found = connections_.find(connection_id);
  if (found != connections_.end()) stop_waiting(found->second, addresses_.at(found->second.from));
}

void ConnectionLimiter::stop_waiting(ConnectionState& inside, AddressConnections& address) {
  if (inside.waiting) address.waiting.erase(*inside.waiting);
  inside.waiting.reset();
}

void ConnectionLimiter::set_bytes(ConnectionId connection_id, std::size_t bytes) {
  const auto found = connections_.find(connection_id);
  if (found == connections_.end()) return;
  AddressConnections& address = addresses_.at(found->second.from);
  address.bytes += bytes - found->second.bytes;
  bytes_ += bytes - found->second.bytes;
  found->second.bytes = bytes;
}

}  // namespace troupe::server
