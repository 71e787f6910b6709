#pragma once
// Prototypes of histories (RcLLM §III-B). A prototype is a token at a position of many users'
// histories, with keys and values of all layers that are used for every similar token. Similarity
// is the cosine of two directions. A direction is a token's row of the embedding joined with waves
// of its position, so the same word far away counts as another token (the paper's position-aware
// embedding, whose form it leaves open). A table has the nearest prototype of every token that was
// seen when they were made (prototype_table.h). For other tokens a hash of random hyperplanes
// (prototype_hash.h) finds it without comparing all. A prototype below the minimum cosine does not
// match.
//
// Prototypes are made once for a model, from histories (PrototypeMaker): the most frequent tokens
// first; each joins the nearest prototype or becomes a new one. A prototype's keys (before
// rotation) and values are the mean over its tokens at their positions. The file is an asset of the
// model's version and includes the embedding. It is mapped, not read, and checked when it is
// opened. The maker is told which tokens never have a prototype (identifiers, timestamps,
// delimiters), and the file records it.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/checkpoint/embedding_table.h"
#include "kernels/checkpoint/mapped_file.h"
#include "kernels/checkpoint/model.h"
#include "kernels/decoder/prototype_hash.h"
#include "kernels/decoder/prototype_table.h"
#include "kernels/executor/executor.h"
#include "kernels/operations/kv_layout.h"
#include "kernels/operations/realign.h"

namespace troupe::kernels {

class Prototypes {
 public:
  // Throws LoadError if the file is damaged or belongs to another version of the model.
  Prototypes(const std::filesystem::path& file, const DecoderConfig& config,
             const std::string& model_version);

  const DecoderConfig& config() const { return config_; }
  std::uint32_t size() const { return count_; }
  const std::string& checksum() const {
    return checksum_;
  }  // part of the names of blocks made of these prototypes
  // Returns true if the token never has a prototype.
  bool is_never(Token token) const { return never_[static_cast<std::size_t>(token)] != std::byte{0}; }
  // The prototype of a token at a position of the prompt, and how it was found.
  struct Match {
    std::optional<std::uint32_t> prototype;  // nullopt: the token must be computed
    bool by_table = false;                   // looked up, not hashed
  };
  Match match(Token token, std::uint32_t position) const;
  std::optional<std::uint32_t> find(Token token, std::uint32_t position) const {
    return match(token, position).prototype;
  }
  // Returns the same by hashing alone, with the cosine.
  std::optional<HashTables::Neighbour> nearest(Token token, std::uint32_t position) const;
  // Returns the cosine of a token at a position and a prototype.
  float cosine(Token token, std::uint32_t position, std::uint32_t prototype) const;
  const PrototypeTable& table() const { return table_; }

  // Fills `pages` with the keys and values of a block whose tokens have these prototypes, as if it
  // had been computed with its first token at `start`. Reads them through `rows` (PrototypeRows or
  // a cache in front of it) if given, else from the file. Passes on what `rows` throws.
  void fill(const KvLayout& layout, std::span<const std::uint32_t> prototypes, std::int32_t start,
            std::span<std::byte* const> pages, EmbeddingTable* rows = nullptr) const;

  // Length of a prototype's row: [layer][head][key, value][head_dim].
  std::uint32_t columns() const { return config_.layers * config_.kv_heads * 2 * config_.head_dim; }
  std::span<const float> row(std::uint32_t prototype) const;

 private:
  MappedFile file_;
  const DecoderConfig config_;
  std::uint32_t count_ = 0;
  std::span<const std::byte> never_;  // [vocabulary]
  std::string checksum_;
  const float* kv_ = nullptr;  // [prototype][columns()]
  float cosine_min_ = 0;
  PrototypeTable table_;
  std::unique_ptr<PositionalEmbedding> embedding_;
  std::unique_ptr<HashTables> hash_;
  std::unique_ptr<HashedTokens> hashed_;  // results for tokens that the table does not cover
  std::vector<double> frequencies_;
  std::vector<KeyRotation> rotations_;  // of keys at the first positions, where blocks are
};

// The prototypes' keys and values as a table whose rows a pass fetches, so that a cache can be put
// in front of the file.
class PrototypeRows final : public EmbeddingTable {
 public:
  explicit PrototypeRows(std::shared_ptr<const Prototypes> prototypes) : prototypes_(std::move(prototypes)) {}
  std::uint32_t rows() const override { return prototypes_->size(); }
  std::uint32_t columns() const override { return prototypes_->columns(); }
  void fetch(std::span<const Token> rows, float* out) override;

 private:
  const std::shared_ptr<const Prototypes> prototypes_;
};

// Returns an executor that also runs plans whose repairs have blocks made of prototypes. It makes
// these blocks, reading through `rows` if given, and lets `executor` run the plans with them.
std::unique_ptr<Executor> with_prototypes(std::unique_ptr<Executor> executor, const KvLayout& layout,
                                          std::shared_ptr<const Prototypes> prototypes,
                                          std::shared_ptr<EmbeddingTable> rows = nullptr);

// Makes prototypes. First `see` all histories, then `settle`, then `take` the keys and values of
// some or all of them, then `write`.
class PrototypeMaker {
 public:
  // `never` is [vocabulary]: 1 if the token never has a prototype; empty: 0 for all. `model` must
  // outlive this object.
  PrototypeMaker(const DecoderModel& model, const PrototypeOptions& options,
                 std::vector<std::uint8_t> never = {});

  void see(Token token, std::uint32_t position);
  void settle();
  // Adds the keys and values of one token at this position of a prompt, from pages of 32-bit
  // numbers.
  void take(Token token, std::uint32_t position, const KvLayout& layout, std::span<std::byte* const> pages,
            std::size_t index);
  // Writes the file, without prototypes that got no keys and values, and with the table of all
  // tokens that were seen. Throws LoadError if it cannot be written. Returns the table's runs.
  std::size_t write(const std::filesystem::path& file) const;

  struct Report {
    std::uint64_t tokens = 0, never = 0,
                  covered = 0;  // tokens seen, tokens that never have a prototype, tokens with a prototype
    std::uint32_t places = 0;   // distinct pairs of token and position
    std::uint32_t prototypes = 0;
    double cosine = 0;  // mean over the covered tokens
  };
  const Report& report() const { return report_; }

 private:
  struct PrototypeDraft {
    Token token = 0;
    std::uint32_t position = 0;
    std::uint64_t members = 0, taken = 0;
    std::vector<double> sums;  // [layer][head][key, value][head_dim]
  };
  // Returns the draft whose mean the token is part of, or no_prototype.
  std::uint32_t draft_of(Token token, std::uint32_t position);

  const DecoderModel& model_;
  const PrototypeOptions options_;
  const std::vector<std::uint8_t> never_;
  PositionalEmbedding embedding_;
  HashTables hash_;
  HashedTokens hashed_;
  std::vector<double> frequencies_;
  TokenCounts counts_;
  std::vector<PrototypeDraft> drafts_;
  Report report_;
};

}  // namespace troupe::kernels
