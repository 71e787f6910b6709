#pragma once
// Writes small SentencePiece models: the wire form of Protocol Buffers, member by member.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace troupe {

inline std::string proto_varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(0x80 | (value & 0x7f));
  return bytes + static_cast<char>(value);
}
inline std::string proto_number(std::uint32_t member, std::uint64_t value) {
  return proto_varint(std::uint64_t{member} << 3) + proto_varint(value);
}
inline std::string proto_text(std::uint32_t member, std::string_view text) {
  return proto_varint((std::uint64_t{member} << 3) | 2) + proto_varint(text.size()) + std::string(text);
}
inline std::string proto_real(std::uint32_t member, float value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return proto_varint((std::uint64_t{member} << 3) | 5) + bytes;
}

// Types of pieces.
inline constexpr std::uint64_t piece_normal = 1, piece_unknown = 2, piece_control = 3, piece_user_defined = 4,
                               piece_unused = 5, piece_byte = 6;
inline std::string sentence_piece(std::string_view text, float score = 0, std::uint64_t type = piece_normal) {
  return proto_text(1, proto_text(1, text) + proto_real(2, score) + proto_number(3, type));
}
// <unk>, <s> and </s> are tokens 0, 1 and 2.
inline std::string first_pieces() {
  return sentence_piece("<unk>", 0, piece_unknown) + sentence_piece("<s>", 0, piece_control) +
         sentence_piece("</s>", 0, piece_control);
}
inline std::string byte_pieces() {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    static constexpr std::string_view digits = "0123456789ABCDEF";
    const std::string text{'<',
                           '0',
                           'x',
                           digits[static_cast<std::size_t>(byte) / 16],
                           digits[static_cast<std::size_t>(byte) % 16],
                           '>'};
    all += sentence_piece(text, 0, piece_byte);
  }
  return all;
}
inline std::string sentence_trainer(bool merges, bool byte_fallback = false) {
  return proto_text(2, proto_number(3, merges ? 2 : 1) + proto_number(35, byte_fallback ? 1 : 0));
}

}  // namespace troupe
