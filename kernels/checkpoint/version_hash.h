#pragma once
// SHA-256 over all that a model computes with, part by part: what its version is made of.
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
                 "SHA-256 is there");
  }
  // Each part goes in with its length, so that no two sequences of parts are the same bytes.
  void part(std::span<const std::byte> bytes) {
    begin_part(bytes.size());
    add(bytes);
  }
  // A part that comes little by little, in bytes that are together as many.
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
    TROUPE_CHECK(EVP_DigestUpdate(context_.get(), bytes, size) == 1, "SHA-256 takes bytes");
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace troupe::kernels
