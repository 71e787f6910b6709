// Checks the footer of a RocksDB table (its last bytes, which locate its parts), because RocksDB
// 7.8 trusts it without a checksum. A few wrong bits there would end the process.
#include "runtime/store/store_footer.h"

#include <cstring>

namespace troupe {
namespace {

// The footer is: one byte for the checksum type, two handles (offset and size each) in forty bytes,
// a version, and a magic number.
constexpr std::uint64_t table_magic = 0x88e2'41b7'85f4'cff7;
constexpr std::size_t handles_at = 1, version_at = 41, magic_at = 45;
constexpr std::uint32_t last_version = 5;   // later versions have a checksum
constexpr std::uint64_t trailer_bytes = 5;  // after each part

template <class Integer>
Integer little_endian(std::string_view bytes, std::size_t at) {
  Integer value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Decodes a varint of seven bits per byte. Returns false if it does not end.
bool take_number(std::string_view& bytes, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace

std::string validate_footer(std::string_view footer, std::uint64_t table_bytes) {
  if (footer.size() != table_footer_bytes || table_bytes < table_footer_bytes) return "";
  if (little_endian<std::uint64_t>(footer, magic_at) != table_magic) return "";
  if (little_endian<std::uint32_t>(footer, version_at) > last_version) return "";
  std::string_view handles = footer.substr(handles_at, version_at - handles_at);
  for (int part = 0; part < 2; ++part) {
    std::uint64_t offset = 0, size = 0;
    if (!take_number(handles, offset) || !take_number(handles, size))
      return "the footer's offsets cannot be read";
    const std::uint64_t capacity = table_bytes - table_footer_bytes;
    if (offset > capacity || size > capacity - offset || capacity - offset - size < trailer_bytes)
      return "the footer names " + std::to_string(size) + " bytes at " + std::to_string(offset) + " of " +
             std::to_string(table_bytes);
  }
  return "";
}

}  // namespace troupe
