// Writes and reads the mark: a small file beside the database with the last acknowledged version
// numbers, and ceilings for numbers in use. The mark shows after a crash whether the database lost
// acknowledged writes, and no number is used twice.
#include "runtime/store/store_mark.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace troupe {
namespace {

constexpr std::size_t slot_bytes = 512;
constexpr std::uint64_t numbers_ahead = 10'000;  // numbers used between two waits for the disk

struct Slot {
  std::array<char, 8> magic;
  std::uint64_t serial;
  AcknowledgedMark::State state;
  std::uint64_t sum;
};
static_assert(sizeof(Slot) == 56, "a slot is written as it lies in memory");
constexpr std::array<char, 8> first_bytes = {'t', 'r', 'o', 'u', 'p', 'e', 'A', '1'};

std::uint64_t sum_of(const Slot& slot) { return XXH3_64bits(&slot, sizeof slot - sizeof slot.sum); }

std::optional<Slot> read_slot(int file, std::size_t index) {
  Slot slot;
  if (pread(file, &slot, sizeof slot, static_cast<off_t>(index * slot_bytes)) != sizeof slot) return {};
  if (slot.magic != first_bytes || slot.sum != sum_of(slot)) return {};
  return slot;
}

std::size_t index_of(VersionKind what) { return static_cast<std::size_t>(what); }

}  // namespace

AcknowledgedMark::MarkReading AcknowledgedMark::read_file(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {{}, errno == ENOENT ? "it is missing" : std::generic_category().message(errno)};
  const std::optional<Slot> slots[] = {read_slot(file, 0), read_slot(file, 1)};
  close(file);
  if (!slots[0] && !slots[1]) return {{}, "neither of its two slots is sound"};
  if (!slots[0] || !slots[1])
    return {(slots[0] ? slots[0] : slots[1])->state, "one of its two slots is damaged"};
  return {slots[slots[0]->serial < slots[1]->serial]->state, ""};
}

AcknowledgedMark::AcknowledgedMark(const std::filesystem::path& path, const State& state) : state_(state) {
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ >= 0 && write_slot() && write_slot() && fsync(file_) == 0) return;
  const std::error_code error(errno, std::generic_category());
  if (file_ >= 0) close(file_);
  throw std::system_error(error, path.string());
}

AcknowledgedMark::~AcknowledgedMark() { close(file_); }

bool AcknowledgedMark::write_slot() {
  char bytes[slot_bytes] = {};
  Slot slot{first_bytes, ++serial_, state_, 0};
  slot.sum = sum_of(slot);
  std::memcpy(bytes, &slot, sizeof slot);
  return pwrite(file_, bytes, sizeof bytes, static_cast<off_t>(serial_ % 2 * slot_bytes)) == sizeof bytes;
}

std::optional<std::string> AcknowledgedMark::reserve(VersionKind what, std::uint64_t number) {
  std::uint64_t& ceiling = state_.ceiling[index_of(what)];
  if (number <= ceiling) return {};
  const std::uint64_t before = ceiling;
  ceiling = number + numbers_ahead;
  if (write_slot() && fdatasync(file_) == 0) return {};
  ceiling = before;
  return "the mark of acknowledged writes: " + std::generic_category().message(errno);
}

void AcknowledgedMark::acknowledge(VersionKind what, std::uint64_t number) {
  state_.last[index_of(what)] = number;
  write_slot();  // if it fails, the mark lags behind
}

}  // namespace troupe
