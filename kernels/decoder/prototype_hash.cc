// Computes directions of tokens at positions, and finds the nearest of many by random hyperplanes.
#include "kernels/decoder/prototype_hash.h"

#include <array>
#include <cmath>
#include <mutex>

#include "kernels/base/check.h"
#include "kernels/base/hash.h"
#include "kernels/checkpoint/random_values.h"

namespace troupe::kernels {

// Sums of several lanes, which compilers turn into vector instructions without another order.
float dot(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t lanes = 16;
  float sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= a.size(); i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (std::size_t lane = 0; i < a.size(); ++i, ++lane) sums[lane] += a[i] * b[i];
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

PositionalEmbedding::PositionalEmbedding(std::span<const float> table, std::uint32_t hidden,
                                         double position_weight)
    : table_(table), hidden_(hidden), position_weight_(position_weight) {
  for (std::uint32_t i = 0; i < waves / 2; ++i) frequencies_[i] = std::pow(1'000.0, -double(i) / (waves / 2));
}

std::vector<float> PositionalEmbedding::direction(Token token, std::uint32_t position) const {
  TROUPE_CHECK(token >= 0 && (std::size_t(token) + 1) * hidden_ <= table_.size(),
               "prototypes: expected a token of the vocabulary");
  const std::span<const float> row = table_.subspan(std::size_t(token) * hidden_, hidden_);
  std::vector<float> made(width());
  const double length = std::sqrt(double(dot(row, row)));
  const auto share = static_cast<float>(length > 0 ? std::sqrt(1 - position_weight_) / length : 0);
  for (std::size_t i = 0; i < row.size(); ++i) made[i] = row[i] * share;
  const double wave = std::sqrt(position_weight_ / (waves / 2));
  for (std::uint32_t i = 0; i < waves / 2; ++i) {
    const double angle = position * frequencies_[i];
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

float HashTables::cosine(std::span<const float> direction, std::uint32_t number) const {
  TROUPE_CHECK(direction.size() == width_ && number < directions_.size() / width_,
               "hash tables: expected a direction of their width and the number of an added one");
  return dot(direction, {&directions_[std::size_t{number} * width_], width_});
}

std::optional<HashTables::Neighbour> HashTables::nearest(std::span<const float> direction) const {
  std::optional<Neighbour> best;
  for (std::uint32_t table = 0; table < tables_.size(); ++table) {
    const auto at = tables_[table].find(bucket(direction, table));
    if (at == tables_[table].end()) continue;
    for (const std::uint32_t number : at->second) {
      const float near = cosine(direction, number);
      if (!best || near > best->cosine || (near == best->cosine && number < best->number))
        best = {number, near};
    }
  }
  return best;
}

namespace {

constexpr std::size_t hashed_shards = 16, hashed_entries = 4'096;  // 768 KiB in all

struct HashedEntry {
  Token token = -1;  // no token: the entry is empty
  std::uint32_t position = 0, result = 0;
};

}  // namespace

struct HashedTokens::Shard {
  std::mutex mutex;
  std::array<HashedEntry, hashed_entries> entries;
};

HashedTokens::HashedTokens() : shards_(std::make_unique<Shard[]>(hashed_shards)) {}
HashedTokens::~HashedTokens() = default;

HashedTokens::Shard& HashedTokens::shard(Token token, std::uint32_t position, std::size_t& entry) const {
  const std::uint64_t hash = spread(std::uint64_t(static_cast<std::uint32_t>(token)) << 32 | position);
  entry = hash / hashed_shards % hashed_entries;
  return shards_[hash % hashed_shards];
}

std::optional<std::uint32_t> HashedTokens::find(Token token, std::uint32_t position) const {
  std::size_t number = 0;
  Shard& of = shard(token, position, number);
  const std::lock_guard lock(of.mutex);
  const HashedEntry& entry = of.entries[number];
  if (entry.token != token || entry.position != position) return std::nullopt;
  return entry.result;
}

void HashedTokens::keep(Token token, std::uint32_t position, std::uint32_t result) {
  std::size_t number = 0;
  Shard& of = shard(token, position, number);
  const std::lock_guard lock(of.mutex);
  of.entries[number] = {token, position, result};
}

}  // namespace troupe::kernels
