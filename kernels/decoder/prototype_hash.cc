// Computes directions of tokens at positions, and finds the nearest of many by random hyperplanes.
#include "kernels/decoder/prototype_hash.h"

#include <array>
#include <cmath>
#include <mutex>
#include <utility>

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
  std::vector<float> made = row(token);
  const std::vector<float> behind = waves_at(position);
  made.insert(made.end(), behind.begin(), behind.end());
  return made;
}

std::vector<float> PositionalEmbedding::row(Token token) const {
  TROUPE_CHECK(token >= 0 && (std::size_t(token) + 1) * hidden_ <= table_.size(),
               "prototypes: expected a token of the vocabulary");
  const std::span<const float> row = table_.subspan(std::size_t(token) * hidden_, hidden_);
  std::vector<float> made(row.begin(), row.end());
  const double length = std::sqrt(double(dot(row, row)));
  const auto share = static_cast<float>(length > 0 ? std::sqrt(1 - position_weight_) / length : 0);
  for (float& number : made) number *= share;
  return made;
}

std::vector<float> PositionalEmbedding::waves_at(std::uint32_t position) const {
  std::vector<float> made(waves);
  const double wave = std::sqrt(position_weight_ / (waves / 2));
  for (std::uint32_t i = 0; i < waves / 2; ++i) {
    const double angle = position * frequencies_[i];
    made[2 * i] = static_cast<float>(wave * std::cos(angle));
    made[2 * i + 1] = static_cast<float>(wave * std::sin(angle));
  }
  return made;
}

HashTables::HashTables(std::uint32_t width, const PrototypeOptions& options, std::uint32_t tail)
    : width_(width), tail_(tail), planes_(options.planes), tables_(options.tables) {
  TROUPE_CHECK(tail <= width, "hash tables: expected a tail of at most the width");
  normals_.resize(std::size_t{options.tables} * planes_ * width_);
  for (std::size_t i = 0; i < normals_.size(); ++i)
    normals_[i] = nearly_normal(spread(options.seed + spread(i)));
}

std::span<const float> HashTables::added(std::uint32_t number) const {
  return std::span(directions_).subspan(std::size_t{number} * width_, width_);
}

std::vector<float> HashTables::project_head(std::span<const float> head) const {
  std::vector<float> products(tables_.size() * planes_);
  for (std::size_t i = 0; i < products.size(); ++i)
    products[i] = dot(head, {&normals_[i * width_], head.size()});
  return products;
}

std::vector<float> HashTables::project_tail(std::span<const float> tail) const {
  std::vector<float> products(tables_.size() * planes_);
  for (std::size_t i = 0; i < products.size(); ++i)
    products[i] = dot(tail, this->tail(std::span(normals_).subspan(i * width_, width_)));
  return products;
}

namespace {

std::uint32_t bucket_of(std::span<const float> head, std::span<const float> tail) {
  std::uint32_t bits = 0;
  for (std::size_t plane = 0; plane < head.size(); ++plane)
    bits = bits << 1 | (head[plane] + tail[plane] >= 0 ? 1 : 0);
  return bits;
}

void keep_nearer(std::optional<HashTables::Neighbour>& best, std::uint32_t number, float cosine) {
  if (!best || cosine > best->cosine || (cosine == best->cosine && number < best->number))
    best = {number, cosine};
}

}  // namespace

template <class Visit>
void HashTables::visit_candidates(std::span<const float> head, std::span<const float> tail,
                                  const Visit& visit) const {
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    const std::size_t first = table * planes_;
    const auto at =
        tables_[table].find(bucket_of(head.subspan(first, planes_), tail.subspan(first, planes_)));
    if (at == tables_[table].end()) continue;
    for (const std::uint32_t number : at->second) visit(number);
  }
}

void HashTables::add(std::span<const float> direction, std::uint32_t number) {
  TROUPE_CHECK(direction.size() == width_ && directions_.size() == std::size_t{number} * width_,
               "hash tables: expected directions of their width, numbered in order");
  directions_.insert(directions_.end(), direction.begin(), direction.end());
  const std::vector<float> of_head = project_head(head(direction)), of_tail = project_tail(tail(direction));
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    const auto own = [&](std::span<const float> products) {
      return products.subspan(table * planes_, planes_);
    };
    tables_[table][bucket_of(own(of_head), own(of_tail))].push_back(number);
  }
}

float HashTables::cosine(std::span<const float> direction, std::uint32_t number) const {
  TROUPE_CHECK(direction.size() == width_ && number < directions_.size() / width_,
               "hash tables: expected a direction of their width and the number of an added one");
  const std::span<const float> other = added(number);
  return dot(head(direction), head(other)) + dot(tail(direction), tail(other));
}

std::optional<HashTables::Neighbour> HashTables::nearest(std::span<const float> direction) const {
  std::optional<Neighbour> best;
  visit_candidates(project_head(head(direction)), project_tail(tail(direction)),
                   [&](std::uint32_t number) { keep_nearer(best, number, cosine(direction, number)); });
  return best;
}

HashSweep::HashSweep(const HashTables& tables, std::span<const std::vector<float>> tails)
    : tables_(tables), tails_(tails) {
  for (const std::vector<float>& tail : tails) projections_.push_back(tables.project_tail(tail));
  cosines_.resize(tables.directions_.size() / tables.width_);
  known_since_.resize(cosines_.size());
  visited_.resize(cosines_.size());
}

std::vector<std::optional<HashTables::Neighbour>> HashSweep::nearest(std::span<const float> head) {
  std::vector<std::optional<HashTables::Neighbour>> found(tails_.size());
  const std::vector<float> of_head = tables_.project_head(head);
  ++heads_;
  for (std::size_t i = 0; i < tails_.size(); ++i) {
    ++directions_;
    tables_.visit_candidates(of_head, projections_[i], [&](std::uint32_t number) {
      if (std::exchange(visited_[number], directions_) == directions_) return;
      const std::span<const float> other = tables_.added(number);
      if (std::exchange(known_since_[number], heads_) != heads_)
        cosines_[number] = dot(head, tables_.head(other));
      keep_nearer(found[i], number, cosines_[number] + dot(tails_[i], tables_.tail(other)));
    });
  }
  return found;
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
HashedTokens::HashedTokens(HashedTokens&& other) noexcept = default;
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
