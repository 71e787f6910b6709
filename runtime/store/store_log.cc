// Reads RocksDB's write-ahead logs and manifests record by record, without RocksDB. RocksDB's own
// recovery hides some damage; this reader reports where each unreadable part begins and continues
// at the next sound record.
#include "runtime/store/store_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "runtime/store/store_log_sums.h"

namespace troupe {
namespace {

constexpr std::size_t block_bytes = 32'768, head_bytes = 7;
enum Type : std::uint8_t { full_piece = 1, first_piece = 2, middle_piece = 3, last_piece = 4 };

// Stored checksums are masked, because a CRC of bytes that contain CRCs is weak.
std::uint32_t masked(std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282'EAD8u; }

template <class Integer>
Integer little_endian(const char* bytes) {
  Integer value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// Reads varints of seven bits per byte.
class Varints {
 public:
  explicit Varints(std::string_view bytes) : rest_(bytes) {}
  bool sound() const { return sound_; }
  std::uint64_t next() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    sound_ = false;
    return 0;
  }
  void skip_bytes() {
    const std::uint64_t count = next();
    sound_ = sound_ && count <= rest_.size();
    rest_.remove_prefix(sound_ ? count : rest_.size());
  }

 private:
  std::string_view rest_;
  bool sound_ = true;
};

struct Piece {
  std::uint8_t type = 0;
  std::string_view bytes;
};

// Returns the piece that begins at `at`, if it is sound. Without `sums` it computes the checksum
// from the piece.
std::optional<Piece> piece_at(std::string_view block, std::size_t at, const PieceSums* sums) {
  if (block.size() - at < head_bytes) return {};
  const char* head = block.data() + at;
  const std::size_t length = little_endian<std::uint16_t>(head + 4);
  const auto type = static_cast<std::uint8_t>(head[6]);
  if (type < full_piece || type > last_piece || block.size() - at - head_bytes < length) return {};
  const std::uint32_t sum =
      sums ? sums->crc32c(at + 6, 1 + length) : crc32c(block.substr(at + 6, 1 + length));
  if (masked(sum) != little_endian<std::uint32_t>(head)) return {};
  return Piece{type, block.substr(at + head_bytes, length)};
}

const char* fault_at(std::string_view block, std::size_t at) {
  if (block.size() - at < head_bytes) return "a record is cut off";
  const char* head = block.data() + at;
  if (std::all_of(head, head + head_bytes, [](char byte) { return byte == 0; }))
    return "zeros stand for a record";
  if (block.size() - at - head_bytes < little_endian<std::uint16_t>(head + 4)) return "a record is cut off";
  return "the sum of a record is wrong";
}

// Goes through a log's blocks and assembles records.
class LogReader {
 public:
  explicit LogReader(const UseRecord& use) : use_(use) {}

  void take_block(std::uint64_t offset, std::string_view block) {
    // Computed at the first damage: each byte after it may claim a long piece.
    std::optional<PieceSums> sums;
    const auto sound_at = [&](std::size_t at) { return piece_at(block, at, sums ? &*sums : nullptr); };
    for (std::size_t at = 0; at < block.size();) {
      if (block.size() - at < head_bytes && is_padding(block, at)) return;
      const auto piece = sound_at(at);
      if (!piece) {
        if (!sums) sums.emplace(block);
        note(offset + at, fault_at(block, at));
        ++at;  // the next sound piece may begin anywhere, since a wrong length is not trusted
        while (at < block.size() && !sound_at(at)) ++at;
        continue;
      }
      take_piece(offset + at, *piece);
      at += head_bytes + piece->bytes.size();
    }
  }
  void lose_block(std::uint64_t offset, const std::string& why) { note(offset, why); }
  LogReading end(std::uint64_t bytes) {
    if (in_record_) note(record_at_, "a record is cut off");
    reading_.bytes = bytes;
    reading_.torn = pending_;
    return std::move(reading_);
  }

 private:
  static bool is_padding(std::string_view block, std::size_t at) {
    return block.size() == block_bytes && std::all_of(block.begin() + static_cast<std::ptrdiff_t>(at),
                                                      block.end(), [](char b) { return b == 0; });
  }
  // Later records decide whether this damage is in the middle or at the end.
  void note(std::uint64_t offset, const std::string& what) {
    if (!pending_) pending_ = LogDamage{in_record_ ? record_at_ : offset, what};
    in_record_ = false;
  }
  void take_piece(std::uint64_t offset, const Piece& piece) {
    const bool begins = piece.type == full_piece || piece.type == first_piece;
    if (begins && in_record_) note(offset, "a record has no end");
    if (!begins && !in_record_) return note(offset, "a record has no beginning");
    if (begins) record_.clear(), record_at_ = offset;
    record_.append(piece.bytes);
    in_record_ = piece.type == first_piece || piece.type == middle_piece;
    if (!in_record_) finish();
  }
  void finish() {
    if (pending_) reading_.damage.push_back(*std::move(pending_));
    pending_.reset();
    ++reading_.records;
    use_(record_at_, record_);
  }

  const UseRecord& use_;
  LogReading reading_;
  std::optional<LogDamage> pending_;  // no sound record was seen after it yet
  bool in_record_ = false;
  std::uint64_t record_at_ = 0;
  std::string record_;
};

// Returns the number of bytes read, fewer than a block at the end of the file; -1 if the disk
// fails.
ssize_t read_block(int file, std::uint64_t offset, char* into) {
  std::size_t done = 0;
  while (done < block_bytes) {
    const ssize_t got = pread(file, into + done, block_bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

}  // namespace

LogReading read_log(const std::filesystem::path& path, const UseRecord& use) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    LogReading nothing;
    nothing.error = errno;
    return nothing;
  }
  LogReader reader(use);
  std::string block(block_bytes, '\0');
  int error = 0;
  const off_t end = lseek(file, 0, SEEK_END);
  std::uint64_t offset = 0;
  for (const auto bytes = static_cast<std::uint64_t>(std::max<off_t>(end, 0)); offset < bytes;) {
    const ssize_t got = read_block(file, offset, block.data());
    if (got < 0) error = errno, reader.lose_block(offset, std::generic_category().message(error));
    if (got > 0) reader.take_block(offset, std::string_view(block).substr(0, static_cast<std::size_t>(got)));
    offset = std::min(bytes, offset + block_bytes);
  }
  close(file);
  LogReading reading = reader.end(offset);
  reading.error = error;
  return reading;
}

LogReading read_log_bytes(std::string_view bytes, const UseRecord& use) {
  LogReader reader(use);
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes)
    reader.take_block(at, bytes.substr(at, block_bytes));
  return reader.end(bytes.size());
}

std::optional<BatchHead> batch_head(std::string_view record) {
  constexpr std::size_t bytes = 12;
  if (record.size() < bytes) return {};
  return BatchHead{little_endian<std::uint64_t>(record.data()),
                   little_endian<std::uint32_t>(record.data() + 8)};
}

// Reads the sequence number from a manifest record. Handles the fields that may precede it, in
// RocksDB's order, and stops there.
std::uint64_t manifest_sequence(std::string_view record) {
  enum Tag : std::uint64_t {
    comparator = 1,
    log_number = 2,
    next_file = 3,
    last_sequence = 4,
    previous_log = 9,
    least_log = 10,
    most_columns = 203,
    skippable = 1 << 13  // a flag bit: such fields carry their length
  };
  Varints fields(record);
  for (std::uint64_t tag = fields.next(); fields.sound(); tag = fields.next()) {
    if (tag == last_sequence) {
      const std::uint64_t sequence = fields.next();
      return fields.sound() ? sequence : 0;
    }
    if (tag == comparator || (tag & skippable)) {
      fields.skip_bytes();
    } else if (tag == log_number || tag == next_file || tag == previous_log || tag == least_log ||
               tag == most_columns) {
      fields.next();
    } else {
      return 0;
    }
  }
  return 0;
}

}  // namespace troupe
