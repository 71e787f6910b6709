// Finds and makes prototypes: keys and values that stand for similar tokens of many users'
// histories (RcLLM §III-B).
#include "kernels/decoder/prototypes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/base/check.h"
#include "kernels/base/float_formats.h"

namespace troupe::kernels {
namespace {

// Rotates one head's key of a token by a number of positions.
void rotate(std::span<double> key, const std::vector<double>& frequencies, double positions) {
  const std::size_t half = key.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = positions * frequencies[i], a = key[i], b = key[half + i];
    key[i] = a * std::cos(angle) - b * std::sin(angle);
    key[half + i] = b * std::cos(angle) + a * std::sin(angle);
  }
}

// Stores one head's key or value in the pages' format.
void store(KvFormat format, std::span<const float> row, std::byte* to) {
  if (format == KvFormat::f32) {
    std::memcpy(to, row.data(), row.size_bytes());
    return;
  }
  for (const float number : row) {
    const std::uint16_t narrow = format == KvFormat::f16 ? to_f16(number) : to_bf16(number);
    std::memcpy(to, &narrow, sizeof narrow);
    to += sizeof narrow;
  }
}

}  // namespace

std::optional<HashTables::Neighbour> Prototypes::nearest(Token token, std::uint32_t position) const {
  if (is_never(token)) return std::nullopt;
  const auto found = hash_->nearest(embedding_->direction(token, position));
  return found && found->cosine >= cosine_min_ ? found : std::nullopt;
}

Prototypes::Match Prototypes::match(Token token, std::uint32_t position) const {
  const auto matched = [](std::uint32_t result, bool by_table) {
    return result == no_prototype ? Match{{}, by_table} : Match{result, by_table};
  };
  if (is_never(token)) return {};
  if (const auto result = table_.find(token, position)) return matched(*result, true);
  if (const auto result = hashed_->find(token, position)) return matched(*result, false);
  const auto found = nearest(token, position);
  const std::uint32_t result = found ? found->number : no_prototype;
  hashed_->keep(token, position, result);
  return matched(result, false);
}

float Prototypes::cosine(Token token, std::uint32_t position, std::uint32_t prototype) const {
  return hash_->cosine(embedding_->direction(token, position), prototype);
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
  const RotateKeys& rotate_keys = *realigning().of_format[static_cast<std::size_t>(KvFormat::f32)];
  std::vector<float> rotated(layout.head_dim);
  KeyRotation further;  // of a position behind those that are kept
  for (std::size_t t = 0; t < prototypes.size(); ++t) {
    std::span<const float> left =
        rows ? std::span<const float>(fetched).subspan(t * columns(), columns()) : row(prototypes[t]);
    const std::int64_t position = start + static_cast<std::int64_t>(t);
    const bool is_kept = position >= 0 && static_cast<std::size_t>(position) < rotations_.size();
    const KeyRotation& rotation = is_kept ? rotations_[static_cast<std::size_t>(position)]
                                          : (further = make_rotation(frequencies_, position));
    std::byte* const page = pages[t / layout.page_tokens] + t % layout.page_tokens * layout.vector_bytes();
    for (std::uint32_t layer = 0; layer < layout.layers; ++layer)
      for (std::uint32_t head = 0; head < layout.kv_heads; ++head) {
        std::span<const float> key = left.first(rotated.size());
        if (!rotation.cosines.empty()) {
          rotate_keys(std::as_bytes(key).data(), std::as_writable_bytes(std::span(rotated)).data(), 1,
                      key.size(), rotation.cosines.data(), rotation.sines.data());
          key = rotated;
        }
        store(layout.format, key, page + layout.keys(layer, head));
        store(layout.format, left.subspan(rotated.size(), rotated.size()), page + layout.values(layer, head));
        left = left.subspan(2 * rotated.size());
      }
  }
}

PrototypeMaker::PrototypeMaker(const DecoderModel& model, const PrototypeOptions& options,
                               std::vector<std::uint8_t> never)
    : model_(model),
      options_(options),
      never_(never.empty() ? std::vector<std::uint8_t>(model.config.vocabulary) : std::move(never)),
      embedding_(model.weights.embedding.values, model.config.hidden, options.position_weight),
      hash_(embedding_.width(), options, PositionalEmbedding::waves),
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
    if (!found || found->cosine < static_cast<float>(options_.cosine_min)) {
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

std::uint32_t PrototypeMaker::draft_of(Token token, std::uint32_t position) {
  if (const auto draft = hashed_.find(token, position)) return *draft;
  const auto found = hash_.nearest(embedding_.direction(token, position));
  const bool joins = found && found->cosine >= static_cast<float>(options_.cosine_min);
  const std::uint32_t draft = joins ? found->number : no_prototype;
  hashed_.keep(token, position, draft);
  return draft;
}

void PrototypeMaker::take(Token token, std::uint32_t position, const KvLayout& layout,
                          std::span<std::byte* const> pages, std::size_t index) {
  TROUPE_CHECK(layout.format == KvFormat::f32, "prototypes: expected keys and values of 32 bits");
  if (never_.at(static_cast<std::size_t>(token)) != 0) return;
  const std::uint32_t draft = draft_of(token, position);
  if (draft == no_prototype) return;
  PrototypeDraft& made = drafts_[draft];
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
