#pragma once
// Pages and what is asked for them, encrypted on their way: AES-256-GCM, whose tag also says who wrote it.
// Each process draws keys of its own and gives them away with its address, which has to travel where nobody
// else reads (links.h with certificates). Whoever has them can ask the process for pages and read what it
// sends; nobody else can, nor change a byte of it unseen. A reply of one pull that is played to another one's
// reader opens there, too, but is not what was asked for (pull_wire.h), or its block's checksum is another.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/actor/messages.h"

namespace troupe {

using SealKey = std::array<std::uint8_t, 32>;
// Of one owner of pages: what readers ask is sealed with one key, what it sends with the other.
struct SealKeys {
  SealKey requests{}, replies{};
  bool operator==(const SealKeys&) const = default;
};
inline constexpr std::size_t seal_keys_bytes = 2 * sizeof(SealKey);
// Throws std::runtime_error: the system gives no random numbers.
SealKeys draw_seal_keys();

// Travels beside what was sealed, which is as long as it was.
inline constexpr std::size_t seal_nonce_bytes = 12, seal_tag_bytes = 16;
using Seal = std::array<std::uint8_t, seal_nonce_bytes + seal_tag_bytes>;

// One key, one thread, one direction. No two of its seals have the same nonce. With one sender alone
// (`counted`: an owner's replies) nonces are a counter; where several seal with one key (readers' requests)
// they are drawn: 2^32 of them are as many as the cipher allows, requests for a petabyte of pages, to one
// process.
class PageSealer {
 public:
  enum class Nonces : std::uint8_t { counted, drawn };
  PageSealer(const SealKey& key, Nonces nonces);
  ~PageSealer();
  PageSealer(PageSealer&&) noexcept;
  PageSealer& operator=(PageSealer&&) noexcept;

  using Part = std::span<const std::uint8_t>;
  // `beside` goes in the clear and is vouched for. `to` has room for all parts, one behind the other.
  Seal seal(Part beside, std::span<const Part> parts, std::uint8_t* to);

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

  // Into `to`, which has room for as much. False: it was not sealed so with this key, and what `to` holds
  // means nothing.
  [[nodiscard]] bool open(const Seal& seal, std::span<const std::uint8_t> beside,
                          std::span<const std::uint8_t> sealed, std::uint8_t* to);

 private:
  struct Cipher;
  std::unique_ptr<Cipher> cipher_;
};

}  // namespace troupe
