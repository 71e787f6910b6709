// Finds and makes prototypes: keys and values that stand for similar tokens of many users'
// histories (RcLLM §III-B). A hash of random hyperplanes finds the nearest prototype of a token at
// a position.
#include "kernels/decoder/prototypes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/base/check.h"
#include "kernels/base/float_formats.h"
#include "kernels/base/hash.h"
#include "kernels/checkpoint/random_values.h"

namespace troupe::kernels {
namespace {

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += double(a[i]) * b[i];
  return sum;
}

// Rotates one head's key of a token by a number of positions.
void rotate(std::span<double> key, const std::vector<double>& frequencies, double positions) {
  const std::size_t half = key.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = positions * frequencies[i], a = key[i], b = key[half + i];
    key[i] = a * std::cos(angle) - b * std::sin(angle);
    key[half + i] = b * std::cos(angle) + a * std::sin(angle);
  }
}

void store(KvFormat format, std::byte* at, double number) {
  const auto value = static_cast<float>(number);
  if (format == KvFormat::f32) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  const std::uint16_t narrow = format == KvFormat::f16 ? to_f16(value) : to_bf16(value);
  std::memcpy(at, &narrow, sizeof narrow);
}

}  // namespace

std::vector<float> PositionalEmbedding::direction(Token token, std::uint32_t position) const {
  TROUPE_CHECK(token >= 0 && (std::size_t(token) + 1) * hidden_ <= table_.size(),
               "prototypes: expected a token of the vocabulary");
  const std::span<const float> row = table_.subspan(std::size_t(token) * hidden_, hidden_);
  std::vector<float> made(width());
  const double length = std::sqrt(dot(row, row));
  const double share = length > 0 ? std::sqrt(1 - place_weight_) / length : 0;
  for (std::size_t i = 0; i < row.size(); ++i) made[i] = static_cast<float>(row[i] * share);
  const double wave = std::sqrt(place_weight_ / (waves / 2));
  for (std::uint32_t i = 0; i < waves / 2; ++i) {
    const double angle = position * std::pow(1'000.0, -double(i) / (waves / 2));
    made[row.size() + 2 * i] = static_cast<float>(wave * std::cos(angle));
    made[row.size() + 2 * i + 1] = static_cast<float>(wave * std::sin(angle));
  }
  return made;
}

HashTables::HashTables(std::uint32_t width, const PrototypeOptions& options)
    : width_(width), planes_(options.planes), tables_(options.tables) {
  normals_.resize(std::size_t{options.tables} * planes_ * width_);
  for (std::size_t i = 0; i < normals_.size(); ++i)
    normals_[i] = nearly_normal(spread(options.seed + spread(i)));
}

std::uint32_t HashTables::bucket(std::span<const float> direction, std::uint32_t table) const {
  std::uint32_t bits = 0;
  for (std::uint32_t plane = 0; plane < planes_; ++plane) {
    const float* const normal = &normals_[(std::size_t{table} * planes_ + plane) * width_];
    bits = bits << 1 | (dot(direction, {normal, width_}) >= 0 ? 1 : 0);
  }
  return bits;
}

void HashTables::add(std::span<const float> direction, std::uint32_t number) {
  TROUPE_CHECK(directions_.size() == std::size_t{number} * width_,
               "hash tables: expected numbers in ascending order without gaps");
  directions_.insert(directions_.end(), direction.begin(), direction.end());
  for (std::uint32_t table = 0; table < tables_.size(); ++table)
    tables_[table][bucket(direction, table)].push_back(number);
}

std::optional<HashTables::Neighbour> HashTables::nearest(std::span<const float> direction) const {
  std::optional<Neighbour> best;
  for (std::uint32_t table = 0; table < tables_.size(); ++table) {
    const auto at = tables_[table].find(bucket(direction, table));
    if (at == tables_[table].end()) continue;
    for (const std::uint32_t number : at->second) {
      const auto cosine =
          static_cast<float>(dot(direction, {&directions_[std::size_t{number} * width_], width_}));
      if (!best || cosine > best->cosine || (cosine == best->cosine && number < best->number))
        best = {number, cosine};
    }
  }
  return best;
}

std::optional<Prototypes::Match> Prototypes::nearest(Token token, std::uint32_t position) const {
  if (never_[static_cast<std::size_t>(token)] != std::byte{0}) return std::nullopt;
  const auto found = hash_->nearest(embedding_->direction(token, position));
  return found && found->cosine >= cosine_min_ ? found : std::nullopt;
}

std::span<const float> Prototypes::row(std::uint32_t prototype) const {
  TROUPE_CHECK(prototype < count_, "prototypes: expected the number of a prototype");
  return {kv_ + std::size_t{prototype} * columns(), columns()};
}

void PrototypeRows::fetch(std::span<const Token> rows, float* out) {
  for (const Token row : rows)
    out = std::ranges::copy(prototypes_->row(static_cast<std::uint32_t>(row)), out).out;
}

void Prototypes::fill(const KvLayout& layout, std::span<const std::uint32_t> prototypes, std::int32_t start,
                      std::span<std::byte* const> pages, EmbeddingTable* rows) const {
  TROUPE_CHECK(layout.layers == config_.layers && layout.kv_heads == config_.kv_heads &&
                   layout.head_dim == config_.head_dim,
               "prototypes: expected pages of the layout of the prototypes' model");
  TROUPE_CHECK(pages.size() == layout.pages_for(prototypes.size()),
               "prototypes: expected pages for the whole block");
  std::vector<float> fetched;
  if (rows) {
    const std::vector<Token> numbers(prototypes.begin(), prototypes.end());
    fetched.resize(numbers.size() * columns());
    rows->fetch(numbers, fetched.data());
  }
  std::vector<double> vector(layout.head_dim);
  for (std::size_t t = 0; t < prototypes.size(); ++t) {
    const float* from = rows ? &fetched[t * columns()] : row(prototypes[t]).data();
    for (std::uint32_t layer = 0; layer < layout.layers; ++layer)
      for (std::uint32_t head = 0; head < layout.kv_heads; ++head)
        for (const bool value : {false, true}) {
          std::copy_n(from, vector.size(), vector.begin());
          from += vector.size();
          if (!value) rotate(vector, frequencies_, double(start) + double(t));
          std::byte* const to = pages[t / layout.page_tokens] +
                                (value ? layout.values(layer, head) : layout.keys(layer, head)) +
                                t % layout.page_tokens * layout.vector_bytes();
          for (std::size_t i = 0; i < vector.size(); ++i)
            store(layout.format, to + i * value_bytes(layout.format), vector[i]);
        }
  }
}

PrototypeMaker::PrototypeMaker(const DecoderModel& model, const PrototypeOptions& options,
                               std::vector<std::uint8_t> never)
    : model_(model),
      options_(options),
      never_(never.empty() ? std::vector<std::uint8_t>(model.config.vocabulary) : std::move(never)),
      embedding_(model.weights.embedding.values, model.config.hidden, options.position_weight),
      hash_(embedding_.width(), options),
      frequencies_(rope_frequencies(model.config)) {
  TROUPE_CHECK(never_.size() == model.config.vocabulary,
               "prototypes: `never` must have an entry for each token of the vocabulary");
}

void PrototypeMaker::see(Token token, std::uint32_t position) {
  ++report_.tokens;
  if (never_.at(static_cast<std::size_t>(token)) != 0)
    ++report_.never;
  else
    ++counts_[{token, position}];
}

// Frequent tokens come first, so that they become prototypes themselves.
void PrototypeMaker::settle() {
  std::vector<std::pair<std::pair<Token, std::uint32_t>, std::uint64_t>> order(counts_.begin(),
                                                                               counts_.end());
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.second > b.second; });
  double cosines = 0;
  for (const auto& [place, count] : order) {
    ++report_.places;
    const std::vector<float> direction = embedding_.direction(place.first, place.second);
    auto found = hash_.nearest(direction);
    if (!found || found->cosine < options_.cosine_min) {
      if (drafts_.size() >= options_.prototypes_max) continue;
      found = {static_cast<std::uint32_t>(drafts_.size()), 1.0f};
      hash_.add(direction, found->number);
      drafts_.push_back({.token = place.first, .position = place.second});
    }
    drafts_[found->number].members += count;
    report_.covered += count;
    cosines += static_cast<double>(count) * found->cosine;
  }
  report_.prototypes = static_cast<std::uint32_t>(drafts_.size());
  if (report_.covered > 0) report_.cosine = cosines / static_cast<double>(report_.covered);
}

void PrototypeMaker::take(Token token, std::uint32_t position, const KvLayout& layout,
                          std::span<std::byte* const> pages, std::size_t index) {
  TROUPE_CHECK(layout.format == KvFormat::f32, "prototypes: expected keys and values of 32 bits");
  if (never_.at(static_cast<std::size_t>(token)) != 0) return;
  const auto found = hash_.nearest(embedding_.direction(token, position));
  if (!found || found->cosine < options_.cosine_min) return;
  PrototypeDraft& made = drafts_[found->number];
  const std::size_t width = layout.head_dim;
  made.sums.resize(std::size_t{layout.layers} * layout.kv_heads * 2 * width);
  ++made.taken;
  std::vector<float> stored(width);
  std::vector<double> row(width);
  auto sum = made.sums.begin();
  for (std::uint32_t layer = 0; layer < layout.layers; ++layer)
    for (std::uint32_t head = 0; head < layout.kv_heads; ++head)
      for (const bool value : {false, true}) {
        std::memcpy(stored.data(),
                    pages[index / layout.page_tokens] +
                        (value ? layout.values(layer, head) : layout.keys(layer, head)) +
                        index % layout.page_tokens * layout.vector_bytes(),
                    layout.vector_bytes());
        std::copy(stored.begin(), stored.end(), row.begin());
        if (!value) rotate(row, frequencies_, -double(position));
        for (const double number : row) *sum++ += number;
      }
}

}  // namespace troupe::kernels
