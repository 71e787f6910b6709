#include "server/http/door_places.h"

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

bool DoorPlaces::has_room(Origin from) const {
  if (inside_.size() >= limits_.guests_max) return false;
  const auto house = houses_.find(from);
  return house == houses_.end() || house->second.guests < limits_.guests_of_one_max;
}

std::optional<DoorPlaces::Guest> DoorPlaces::goes_for(Origin from) const {
  const auto house = houses_.find(from);
  if (house == houses_.end() || house->second.guests < limits_.guests_of_one_max) return goes();
  if (house->second.waiting.empty()) return std::nullopt;
  return house->second.waiting.front().guest;
}

std::optional<DoorPlaces::Guest> DoorPlaces::goes() const {
  const House* most = nullptr;
  for (const auto& [from, house] : houses_) {
    if (house.waiting.empty()) continue;
    const bool longer =
        most && house.guests == most->guests && house.waiting.front().since < most->waiting.front().since;
    if (!most || house.guests > most->guests || longer) most = &house;
  }
  if (!most) return std::nullopt;
  return most->waiting.front().guest;
}

std::optional<DoorPlaces::Guest> DoorPlaces::goes_for_bytes() const {
  if (bytes_ <= limits_.bytes_max) return std::nullopt;
  const House* most = nullptr;
  for (const auto& [from, house] : houses_)
    if (!house.waiting.empty() && (!most || house.bytes > most->bytes)) most = &house;
  if (!most) return std::nullopt;
  const auto bytes_of = [&](const Waiting& waiting) { return inside_.at(waiting.guest).bytes; };
  return std::ranges::max_element(most->waiting, {}, bytes_of)->guest;
}

void DoorPlaces::enter(Guest guest, Origin from) {
  const bool is_new = inside_.emplace(guest, Inside{from, 0, {}}).second;
  TROUPE_CHECK(is_new, "a connection enters once");
  ++houses_[from].guests;
  waits(guest);
}

void DoorPlaces::leave(Guest guest) {
  const auto found = inside_.find(guest);
  if (found == inside_.end()) return;
  keeps(guest, 0);
  const auto house = houses_.find(found->second.from);
  stop_waiting(found->second, house->second);
  if (--house->second.guests == 0) houses_.erase(house);
  inside_.erase(found);
}

void DoorPlaces::waits(Guest guest) {
  const auto found = inside_.find(guest);
  if (found == inside_.end()) return;
  House& house = houses_.at(found->second.from);
  stop_waiting(found->second, house);
  found->second.waiting = house.waiting.insert(house.waiting.end(), {guest, ++now_});
}

void DoorPlaces::works(Guest guest) {
  const auto found = inside_.find(guest);
  if (found != inside_.end()) stop_waiting(found->second, houses_.at(found->second.from));
}

void DoorPlaces::stop_waiting(Inside& inside, House& house) {
  if (inside.waiting) house.waiting.erase(*inside.waiting);
  inside.waiting.reset();
}

void DoorPlaces::keeps(Guest guest, std::size_t bytes) {
  const auto found = inside_.find(guest);
  if (found == inside_.end()) return;
  House& house = houses_.at(found->second.from);
  house.bytes += bytes - found->second.bytes;
  bytes_ += bytes - found->second.bytes;
  found->second.bytes = bytes;
}

}  // namespace troupe::server
