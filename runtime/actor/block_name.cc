// Computes names of blocks. A block is the stored keys and values of one run of tokens; its name
// is SHA-256 over all that these depend on. Equal names therefore mean that a block can be
// reused.
#include "runtime/actor/block_name.h"

#include <openssl/evp.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are hashed as they lie in memory");

// First part of every name. Change it whenever the format changes.
constexpr std::string_view format = "troupe block 1";

// Computes one SHA-256 at a time over parts. Each part is its tag, its length in bytes (64 bits)
// and its bytes, so that no two lists of parts produce the same stream. The stream is collected and
// hashed by one call, since a call costs as much as hashing the bytes of a short part.
class NameHasher {
 public:
  NameHasher() : algorithm_(EVP_MD_fetch(nullptr, "SHA256", nullptr)), context_(EVP_MD_CTX_new()) {
    must(algorithm_ && context_);
  }

  void start() { stream_.clear(); }

  void part(char tag, const void* bytes, std::uint64_t size) {
    stream_ += tag;
    stream_.append(reinterpret_cast<const char*>(&size), sizeof size);
    if (size > 0) stream_.append(static_cast<const char*>(bytes), size);
  }
  void part(char tag, std::string_view text) { part(tag, text.data(), text.size()); }

  BlockName finish() {
    BlockName name;
    must(EVP_DigestInit_ex2(context_.get(), algorithm_.get(), nullptr));
    must(EVP_DigestUpdate(context_.get(), stream_.data(), stream_.size()));
    must(EVP_DigestFinal_ex(context_.get(), name.bytes.data(), nullptr));
    return name;
  }

 private:
  static void must(bool done) {
    if (done) return;
    std::fputs("block_name: OpenSSL cannot compute SHA-256\n", stderr);
    std::abort();
  }
  struct Free {
    void operator()(EVP_MD* algorithm) const { EVP_MD_free(algorithm); }
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD, Free> algorithm_;
  std::unique_ptr<EVP_MD_CTX, Free> context_;
  std::string stream_;  // kept to reuse its memory
};

std::vector<BlockName> as_set(std::span<const BlockName> names) {
  std::vector<BlockName> set(names.begin(), names.end());
  std::ranges::sort(set, {}, &BlockName::bytes);
  set.erase(std::unique(set.begin(), set.end(), identical), set.end());
  return set;
}

}  // namespace

BlockName block_name(const NameContext& context, std::string_view tenant_salt, std::span<const Token> tokens,
                     std::int32_t start, std::span<const BlockName> sees,
                     std::span<const std::int64_t> features) {
  thread_local NameHasher hasher;  // fetching the algorithm costs more than most names
  const std::vector<BlockName> seen = as_set(sees);
  static_assert(sizeof(BlockName) == 32);
  hasher.start();
  hasher.part('F', format);
  hasher.part('M', context.model_version);
  hasher.part('L', context.layout_version);
  hasher.part('S', tenant_salt);
  hasher.part('T', tokens.data(), tokens.size_bytes());
  hasher.part('P', &start, sizeof start);
  hasher.part('B', seen.data(), seen.size() * sizeof(BlockName));
  if (!features.empty()) hasher.part('E', features.data(), features.size_bytes());
  return hasher.finish();
}

std::string to_hex(const BlockName& name) {
  constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * name.bytes.size());
  for (const std::uint8_t byte : name.bytes) {
    hex += digits[byte >> 4];
    hex += digits[byte & 15];
  }
  return hex;
}

}  // namespace troupe
