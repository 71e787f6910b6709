#pragma once
// Prototypes of histories (RcLLM §III-B). A prototype is a token at a position of many users'
// histories, with keys and values of all layers that are used for every similar token. Similarity
// is the cosine of two directions. A direction is a token's row of the embedding joined with waves
// of its position, so the same word far away counts as another token (the paper's position-aware
// embedding, whose form it leaves open). A hash of random hyperplanes (several tables, seeded)
// finds the nearest prototype without comparing all. A prototype below the minimum cosine does not
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
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/checkpoint/embedding_table.h"
#include "kernels/checkpoint/mapped_file.h"
#include "kernels/checkpoint/model.h"
#include "kernels/executor/executor.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels {

struct PrototypeOptions {
  std::uint32_t tables = 8, planes = 12;  // of the hash: 1 to 64, 1 to 24
  std::uint64_t seed = 1;
  double position_weight = 0.2;  // share of the position in the squared length of a token's direction: 0 to 1
  double cosine_min = 0.9;       // minimum cosine of a token and its prototype: −1 to 1
  std::uint32_t prototypes_max = 65'536;
};

// Computes the direction of a token at a position, with length one.
class PositionalEmbedding {
 public:
  static constexpr std::uint32_t waves = 16;
  // `table` is [vocabulary][hidden] and must outlive this object.
  PositionalEmbedding(std::span<const float> table, std::uint32_t hidden, double position_weight)
      : table_(table), hidden_(hidden), place_weight_(position_weight) {}
  std::uint32_t width() const { return hidden_ + waves; }
  std::vector<float> direction(Token token, std::uint32_t position) const;

 private:
  const std::span<const float> table_;
  const std::uint32_t hidden_;
  const double place_weight_;
};

// Finds directions that are on the same side of all hyperplanes of a table.
class HashTables {
 public:
  HashTables(std::uint32_t width, const PrototypeOptions& options);
  void add(std::span<const float> direction, std::uint32_t number);
  // The candidate of the largest cosine; the lowest number among equals.
  struct Neighbour {
    std::uint32_t number = 0;
    float cosine = 0;
  };
  std::optional<Neighbour> nearest(std::span<const float> direction) const;

 private:
  std::uint32_t bucket(std::span<const float> direction, std::uint32_t table) const;

  const std::uint32_t width_, planes_;
  std::vector<float> normals_;     // [table][plane][width]
  std::vector<float> directions_;  // [number][width]
  std::vector<std::unordered_map<std::uint32_t, std::vector<std::uint32_t>>> tables_;
};

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
  using Match = HashTables::Neighbour;
  // Returns the prototype of a token at this position of the prompt; none: the token must be
  // computed.
  std::optional<Match> nearest(Token token, std::uint32_t position) const;

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
  std::unique_ptr<PositionalEmbedding> embedding_;
  std::unique_ptr<HashTables> hash_;
  std::vector<double> frequencies_;
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
  // Writes the file, without prototypes that got no keys and values. Throws LoadError if it cannot
  // be written.
  void write(const std::filesystem::path& file) const;

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

  const DecoderModel& model_;
  const PrototypeOptions options_;
  const std::vector<std::uint8_t> never_;
  PositionalEmbedding embedding_;
  HashTables hash_;
  std::vector<double> frequencies_;
  std::map<std::pair<Token, std::uint32_t>, std::uint64_t> counts_;
  std::vector<PrototypeDraft> drafts_;
  Report report_;
};

}  // namespace troupe::kernels
