#pragma once
// SHA-256, part by part, over everything that a model computes with; the result is the model's
// version.
#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/base/check.h"

namespace troupe::kernels {

class VersionHash {
 public:
  VersionHash() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    TROUPE_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
                 "SHA-256 is available");
  }
  // Adds one part. Its length is hashed too, so different sequences of parts hash different bytes.
  void part(std::span<const std::byte> bytes) {
    begin_part(bytes.size());
    add(bytes);
  }
  // Begins a part of `size` bytes, which later calls of add() supply.
  void begin_part(std::uint64_t size) { add(&size, sizeof(size)); }
  void add(std::span<const std::byte> bytes) { add(bytes.data(), bytes.size()); }
  void part(const std::string& text) { part(std::as_bytes(std::span(text))); }
  std::string hex() {
    std::array<unsigned char, 32> digest;
    TROUPE_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1, "SHA-256 ends");
    std::string text;
    for (const unsigned char byte : digest) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  }

 private:
  void add(const void* bytes, std::size_t size) {
    TROUPE_CHECK(EVP_DigestUpdate(context_.get(), bytes, size) == 1, "SHA-256 accepts bytes");
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace troupe::kernels
