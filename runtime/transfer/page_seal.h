#pragma once
// Encrypts pages and requests for them in transit with AES-256-GCM, whose tag also authenticates
// the sender. Each process generates its own keys and publishes them with its address, which must
// travel over a private channel (links.h with certificates). Only holders of the keys can request
// pages from the process or read what it sends, and nobody else can change a byte undetected. A
// reply replayed to another pull's reader opens there, but it does not match the request
// (pull_wire.h), or its block's checksum differs.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/actor/messages.h"

namespace troupe {

using SealKey = std::array<std::uint8_t, 32>;
// Keys of one owner of pages: one seals readers' requests, the other seals its replies.
struct SealKeys {
  SealKey requests{}, replies{};
  bool operator==(const SealKeys&) const = default;
};
inline constexpr std::size_t seal_keys_bytes = 2 * sizeof(SealKey);
// Throws std::runtime_error if the system gives no random numbers.
SealKeys generate_seal_keys();

// A seal is sent with the ciphertext, which is as long as the plaintext.
inline constexpr std::size_t seal_nonce_bytes = 12, seal_tag_bytes = 16;
using Seal = std::array<std::uint8_t, seal_nonce_bytes + seal_tag_bytes>;

// Seals with one key, in one direction, on one thread. No nonce repeats. If only one process seals
// with the key (`counted`: an owner's replies), nonces are a counter. If several do (`drawn`:
// readers' requests), they are random: the cipher allows 2^32 of them, which is requests for a
// petabyte of pages to one process.
class PageSealer {
 public:
  enum class Nonces : std::uint8_t { counted, drawn };
  PageSealer(const SealKey& key, Nonces nonces);
  ~PageSealer();
  PageSealer(PageSealer&&) noexcept;
  PageSealer& operator=(PageSealer&&) noexcept;

  using Part = std::span<const std::uint8_t>;
  // Seals all parts, one after the other, into `to`, which has space for them. `associated_data` is
  // authenticated but not encrypted.
  Seal seal(Part associated_data, std::span<const Part> parts, std::uint8_t* to);

 private:
  struct Cipher;
  std::unique_ptr<Cipher> cipher_;
};

class PageOpener {
 public:
  explicit PageOpener(const SealKey& key);
  ~PageOpener();
  PageOpener(PageOpener&&) noexcept;
  PageOpener& operator=(PageOpener&&) noexcept;

  // Decrypts into `to`, which has space for as many bytes. Returns false if the message was not
  // sealed so with this key; then `to` holds garbage.
  [[nodiscard]] bool open(const Seal& seal, std::span<const std::uint8_t> associated_data,
                          std::span<const std::uint8_t> sealed, std::uint8_t* to);

 private:
  struct Cipher;
  std::unique_ptr<Cipher> cipher_;
};

}  // namespace troupe
