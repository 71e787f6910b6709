// Parses a database log: the input's bytes, or pieces with correct sums assembled as the input says,
// because sums cannot be guessed. Records come in order, and damage is reported within the file.
#include "runtime/store/store_log.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

constexpr std::size_t head_bytes = 7;

std::uint32_t sum_of(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F6'3B78u : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282'EAD8u;
}

// Builds a log from the input: for each piece its type, length, bytes, and whether its sum is correct.
std::string built(std::string_view input) {
  std::string log;
  while (input.size() >= 3) {
    const std::size_t length = std::min<std::size_t>(static_cast<unsigned char>(input[1]), input.size() - 3);
    const std::string typed = std::string(1, input[0]).append(input.substr(3, length));
    std::uint32_t sum = sum_of(typed);
    if (input[2] & 1) ++sum;
    log.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    log += static_cast<char>(length);
    log += '\0';
    log += typed;
    input.remove_prefix(3 + length);
  }
  return log.append(input);
}

void run(Input input) {
  const bool build = take_choice(input) & 1;
  const std::string log = build ? built(text_of(input)) : std::string(text_of(input));
  std::uint64_t last = 0, bytes = 0, records = 0;
  const LogReading reading = read_log_bytes(log, [&](std::uint64_t offset, std::string_view record) {
    TROUPE_CHECK(offset < log.size() && (records == 0 || offset > last), "records are out of order");
    last = offset, bytes += record.size(), ++records;
    batch_head(record);
    manifest_sequence(record);
  });
  TROUPE_CHECK(reading.bytes == log.size() && reading.records == records, "records are miscounted");
  TROUPE_CHECK(bytes + records * head_bytes <= log.size(), "records have more bytes than their log");
  for (const LogDamage& damage : reading.damage)
    TROUPE_CHECK(damage.offset <= log.size(), "damage outside the log");
}

std::string piece(char type, const std::string& bytes, char spoil = 0) {
  return std::string{type, static_cast<char>(bytes.size()), spoil} + bytes;
}

std::vector<std::string> seeds() {
  const std::string batch = std::string("\x07\0\0\0\0\0\0\0\x02\0\0\0", 12) + "rows";
  const std::string manifest("\x01\x03xyz\x02\x05\x04\x89\x01", 10);
  const std::string pieces =
      piece(1, batch) + piece(2, "be") + piece(3, "gi") + piece(4, "n") + piece(1, manifest);
  return {"1" + pieces, "1" + piece(1, batch) + piece(1, "x", 1) + piece(1, "y"),
          "1" + piece(2, "a") + piece(2, "b"), "0" + built(pieces),
          "0" + built(pieces).substr(0, 40) + std::string(20, '\0')};
}

}  // namespace

const Target logs_target{"logs", run, seeds};

}  // namespace troupe::fuzz
