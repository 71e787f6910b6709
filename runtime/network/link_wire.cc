// Encodes and decodes the frames that nodes exchange: a header with a checksum, then a message,
// a join, a rejection or a ping. Bytes from the network are not trusted: each length is checked
// before use.
#include "runtime/network/link_wire.h"

#define XXH_STATIC_LINKING_ONLY  // for a state on the stack
#include <xxhash.h>

#include <algorithm>
#include <concepts>
#include <initializer_list>

#include "runtime/network/cluster.h"

namespace troupe::link {
namespace {

constexpr std::uint32_t magic = 0x3150'5254;  // "TRP1"
constexpr std::size_t join_bytes_max = greeting_bytes_max + 4'096, words_max = 4'096, name_bytes_max = 255;

template <std::unsigned_integral T>
void put(std::uint8_t* at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

template <std::unsigned_integral T>
T get(const std::uint8_t* at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | (T{at[i]} << (8 * i)));
  return value;
}

template <std::unsigned_integral T>
void append(Bytes& bytes, T value) {
  bytes.resize(bytes.size() + sizeof(T));
  put(bytes.data() + bytes.size() - sizeof(T), value);
}

template <class Text>
void append_text(Bytes& bytes, const Text& text) {
  append(bytes, static_cast<std::uint32_t>(text.size()));
  bytes.insert(bytes.end(), text.begin(), text.end());
}

struct Reader {
  std::span<const std::uint8_t> left;
  bool ok = true;

  template <std::unsigned_integral T>
  T number() {
    if (left.size() < sizeof(T)) return ok = false, T{0};
    const T value = get<T>(left.data());
    left = left.subspan(sizeof(T));
    return value;
  }
  std::span<const std::uint8_t> text() {
    const auto bytes = number<std::uint32_t>();
    if (!ok || left.size() < bytes) return ok = false, std::span<const std::uint8_t>{};
    const auto found = left.first(bytes);
    left = left.subspan(bytes);
    return found;
  }
};

std::size_t bytes_max(Kind kind) {
  switch (kind) {
    case Kind::join:
      return join_bytes_max;
    case Kind::rejection:
      return words_max;
    case Kind::cargo:
      return message_bytes_max;
    case Kind::ping:
      return 0;
  }
  return 0;
}

constexpr std::uint8_t pages_mark = 1;
constexpr std::size_t sum_at = 6, sum_bytes = 2;

// Returns the CRC-16/CCITT of the header without its checksum. It detects every damage within 16
// consecutive bits.
std::uint16_t sum_of(const Header& header) {
  unsigned sum = 0xFFFF;
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (i >= sum_at && i < sum_at + sum_bytes) continue;
    unsigned x = (sum >> 8 ^ header[i]) & 0xFF;
    x ^= x >> 4;
    sum = (sum << 8 ^ x << 12 ^ x << 5 ^ x) & 0xFFFF;
  }
  return static_cast<std::uint16_t>(sum);
}

Seal seal_of(std::initializer_list<std::span<const std::uint8_t>> parts) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  for (const auto part : parts) XXH3_64bits_update(&state, part.data(), part.size());
  Seal result{};
  put(result.data(), std::uint64_t{XXH3_64bits_digest(&state)});
  return result;
}

void append_seal(Bytes& bytes) {
  const Seal seal = seal_of({bytes});
  bytes.insert(bytes.end(), seal.begin(), seal.end());
}

// Reads a seal and compares it with that of all earlier `bytes`. Returns false if it is wrong or
// missing.
bool verify_seal(Reader& reader, std::span<const std::uint8_t> bytes) {
  const auto sealed = bytes.first(bytes.size() - reader.left.size());
  if (reader.left.size() < seal_bytes ||
      !std::ranges::equal(seal_of({sealed}), reader.left.first(seal_bytes)))
    return false;
  reader.left = reader.left.subspan(seal_bytes);
  return true;
}

}  // namespace

Header encode(const Frame& frame) {
  Header header{};
  put(header.data(), magic);
  header[4] = static_cast<std::uint8_t>(frame.kind);
  header[5] = static_cast<std::uint8_t>(frame.to.role);
  put(header.data() + 8, std::uint32_t{frame.to.node});
  put(header.data() + 12, frame.bytes);
  put(header.data() + sum_at, sum_of(header));
  return header;
}

bool is_whole(const Header& header) { return get<std::uint16_t>(header.data() + sum_at) == sum_of(header); }

std::variant<Frame, std::string> decode_header(const Header& header, bool joined) {
  if (get<std::uint32_t>(header.data()) != magic)
    return "the received bytes are not a frame; expected \"TRP1\"";
  if (header[4] < 1 || header[4] > static_cast<std::uint8_t>(Kind::ping))
    return "a frame has the unknown kind " + std::to_string(header[4]);
  Frame frame{.kind = static_cast<Kind>(header[4])};
  if (joined != (frame.kind == Kind::cargo || frame.kind == Kind::ping))
    return std::string("an unexpected frame; expected ") + (joined ? "cargo or a ping" : "a join");
  if (header[5] > static_cast<std::uint8_t>(Role::allocator))
    return "a frame is for the unknown role " + std::to_string(header[5]);
  frame.to = {get<std::uint32_t>(header.data() + 8), static_cast<Role>(header[5])};
  frame.bytes = get<std::uint32_t>(header.data() + 12);
  if (frame.bytes > bytes_max(frame.kind))
    return "a frame has " + std::to_string(frame.bytes) + " bytes; expected at most " +
           std::to_string(bytes_max(frame.kind));
  return frame;
}

Seal seal(const Header& header, std::span<const std::uint8_t> envelope) {
  return seal_of({header, envelope});
}

std::string remove_seal(const Header& header, Bytes& body) {
  if (body.size() < seal_bytes) return "cargo has no seal";
  const auto envelope = std::span(body).first(body.size() - seal_bytes);
  const Seal right = seal(header, envelope);
  if (!std::equal(right.begin(), right.end(), body.end() - seal_bytes)) return "cargo was damaged in transit";
  body.resize(envelope.size());
  return "";
}

Bytes encode(const Join& join) {
  Bytes bytes;
  append(bytes, join.wire);
  append(bytes, std::uint32_t{join.node});
  append(bytes, std::uint32_t{join.wanted});
  append(bytes, std::uint64_t{join.incarnation});
  append_text(bytes, join.cluster);
  append_text(bytes, join.greeting);
  append(bytes, static_cast<std::uint8_t>(join.supports_seals));
  append_seal(bytes);
  append_text(bytes, join.name);
  append_seal(bytes);
  if (!join.for_pages) return bytes;
  append(bytes, pages_mark);
  append_seal(bytes);
  return bytes;
}

std::variant<Join, std::string> decode_join(std::span<const std::uint8_t> bytes) {
  Reader reader{bytes};
  Join join;
  join.wire = reader.number<std::uint32_t>();
  join.node = reader.number<std::uint32_t>();
  join.wanted = reader.number<std::uint32_t>();
  join.incarnation = reader.number<std::uint64_t>();
  const auto cluster = reader.text(), greeting = reader.text();
  if (!reader.ok) return "a join ends too early";
  if (greeting.size() > greeting_bytes_max) return "the greeting of a join is too long";
  join.cluster.assign(cluster.begin(), cluster.end());
  join.greeting.assign(greeting.begin(), greeting.end());
  if (reader.left.empty()) return join;  // from an older program
  join.supports_seals = reader.number<std::uint8_t>() == 1;
  if (!verify_seal(reader, bytes)) return "a join was damaged in transit";
  if (reader.left.empty()) return join;  // from a program that sends no name
  const auto name = reader.text();
  if (!reader.ok || !verify_seal(reader, bytes)) return "a join was damaged in transit";
  if (name.size() > name_bytes_max) return "the name of a join is too long";
  join.name.assign(name.begin(), name.end());
  if (reader.left.empty() || reader.left.front() != pages_mark) return join;
  reader.number<std::uint8_t>();
  if (!verify_seal(reader, bytes)) return "a join was damaged in transit";
  join.for_pages = true;
  return join;
}

}  // namespace troupe::link
