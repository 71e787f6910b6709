// Encrypts pages and the requests for them in transit, with AES-256-GCM. Only nodes that hold a
// process's keys can request or read its pages, and no byte can be changed undetected.
#include "runtime/transfer/page_seal.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <cstring>
#include <stdexcept>

#include "kernels/base/check.h"

namespace troupe {
namespace {

struct FreeCipher {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeCipher>;

void fill_random(std::uint8_t* to, std::size_t bytes) {
  if (RAND_bytes(to, static_cast<int>(bytes)) != 1)
    throw std::runtime_error(
        "the system gives no random numbers; they are needed for keys that encrypt pages in transit");
}

// Sets the key once; each message then sets only its nonce.
Context context_of(const SealKey& key, bool seals) {
  Context context(EVP_CIPHER_CTX_new());
  const bool set = context && EVP_CipherInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, key.data(),
                                                nullptr, seals ? 1 : 0) == 1;
  if (!set) throw std::runtime_error("OpenSSL has no AES-256-GCM; it is needed to encrypt pages in transit");
  return context;
}

void update(EVP_CIPHER_CTX* context, std::uint8_t* to, std::span<const std::uint8_t> from) {
  int written = 0;
  TROUPE_CHECK(EVP_CipherUpdate(context, to, &written, from.data(), static_cast<int>(from.size())) == 1 &&
                   written == static_cast<int>(from.size()),
               "the cipher outputs as many bytes as it is given");
}

void begin(EVP_CIPHER_CTX* context, const std::uint8_t* nonce,
           std::span<const std::uint8_t> associated_data) {
  TROUPE_CHECK(EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, nonce, -1) == 1,
               "the cipher accepts a nonce");
  if (!associated_data.empty()) update(context, nullptr, associated_data);
}

}  // namespace

SealKeys generate_seal_keys() {
  SealKeys keys;
  fill_random(keys.requests.data(), keys.requests.size());
  fill_random(keys.replies.data(), keys.replies.size());
  return keys;
}

struct PageSealer::Cipher {
  Context context;
  Nonces nonces;
  std::uint64_t count = 0;
};

PageSealer::PageSealer(const SealKey& key, Nonces nonces)
    : cipher_(std::make_unique<Cipher>(context_of(key, true), nonces)) {}
PageSealer::~PageSealer() = default;
PageSealer::PageSealer(PageSealer&&) noexcept = default;
PageSealer& PageSealer::operator=(PageSealer&&) noexcept = default;

Seal PageSealer::seal(Part associated_data, std::span<const Part> parts, std::uint8_t* to) {
  Seal seal{};
  if (cipher_->nonces == Nonces::drawn) {
    fill_random(seal.data(), seal_nonce_bytes);
  } else {
    const std::uint64_t count = cipher_->count++;
    std::memcpy(seal.data(), &count, sizeof count);
  }
  EVP_CIPHER_CTX* context = cipher_->context.get();
  begin(context, seal.data(), associated_data);
  for (const Part& part : parts) {
    update(context, to, part);
    to += part.size();
  }
  int none = 0;
  std::uint8_t nothing = 0;
  const bool ended = EVP_CipherFinal_ex(context, &nothing, &none) == 1 &&
                     EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, seal_tag_bytes,
                                         seal.data() + seal_nonce_bytes) == 1;
  TROUPE_CHECK(ended, "the cipher gives a tag");
  return seal;
}

struct PageOpener::Cipher {
  Context context;
};

PageOpener::PageOpener(const SealKey& key) : cipher_(std::make_unique<Cipher>(context_of(key, false))) {}
PageOpener::~PageOpener() = default;
PageOpener::PageOpener(PageOpener&&) noexcept = default;
PageOpener& PageOpener::operator=(PageOpener&&) noexcept = default;

bool PageOpener::open(const Seal& seal, std::span<const std::uint8_t> associated_data,
                      std::span<const std::uint8_t> sealed, std::uint8_t* to) {
  EVP_CIPHER_CTX* context = cipher_->context.get();
  begin(context, seal.data(), associated_data);
  if (!sealed.empty()) update(context, to, sealed);
  std::array<std::uint8_t, seal_tag_bytes> tag{};
  std::memcpy(tag.data(), seal.data() + seal_nonce_bytes, tag.size());
  TROUPE_CHECK(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, seal_tag_bytes, tag.data()) == 1,
               "the cipher accepts a tag");
  int none = 0;
  std::uint8_t nothing = 0;
  return EVP_CipherFinal_ex(context, &nothing, &none) == 1;
}

}  // namespace troupe
