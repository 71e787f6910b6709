// Stores the keys and values of a beam search's paths while it runs (xGR §5.1). They follow their
// paths from level to level, copied to other rows or marked visible in a tree's mask.
#include "kernels/cpu/engine/beam_tails.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace troupe::kernels {
namespace {

KvLayout layout_of(KvLayout model, std::uint32_t width, std::uint32_t steps, BeamPaths paths) {
  const std::uint32_t levels = PathRows::levels(steps);
  if (paths != BeamPaths::copied)
    model.page_tokens = width * levels;
  else
    model.page_tokens *= static_cast<std::uint32_t>(model.pages_for(levels));
  return model;
}

// The last pass has the widest rows: all levels that are kept, and its own.
std::size_t stride_of(std::uint32_t width, std::uint32_t steps) {
  const std::size_t tokens = std::size_t{width} * (PathRows::levels(steps) + 1);
  return (tokens + attend_mask_tokens - 1) / attend_mask_tokens * attend_mask_tokens;
}

}  // namespace

std::size_t BeamTails::mask_bytes(std::uint32_t width, std::uint32_t steps, BeamPaths paths) {
  return paths == BeamPaths::tree ? width * stride_of(width, steps) * sizeof(float) : 0;
}

std::size_t BeamTails::bytes(const KvLayout& model, std::uint32_t width, std::uint32_t steps,
                             BeamPaths paths) {
  const std::size_t page = layout_of(model, width, steps, paths).page_bytes();
  return paths == BeamPaths::copied ? 2 * width * page : page;
}

void BeamTails::begin(const KvLayout& model, std::uint32_t width, std::uint32_t steps, BeamPaths paths) {
  paths_ = paths;
  layout_ = layout_of(model, width, steps, paths);
  width_ = width;
  rows_.begin(width, steps);
  tokens_.reserve((bytes(model, width, steps, paths) + sizeof(float) - 1) / sizeof(float));
  level_rows_.clear();
  mask_stride_ = stride_of(width, steps);
  mask_.reserve(mask_bytes(width, steps, paths) / sizeof(float));
}

std::uint32_t BeamTails::grow(std::uint32_t rows) {
  level_rows_.resize(rows_.level());
  level_rows_.push_back(rows);
  const std::uint32_t tokens = std::accumulate(level_rows_.begin(), level_rows_.end(), 0U);
  for (std::uint32_t r = 0; r < rows; ++r) {
    float* const seen = mask_.data() + r * mask_stride_;
    std::fill_n(seen, mask_stride_, 0.0f);
    seen[tokens - rows + r] = 1;
    for (std::uint32_t level = 0, first = 0; level < rows_.level(); first += level_rows_[level++])
      seen[first + rows_.row(level, r)] = 1;
  }
  return tokens;
}

const float* BeamTails::mask(std::uint32_t row) const {
  return paths_ == BeamPaths::tree ? mask_.data() + row * mask_stride_ : nullptr;
}

std::byte* BeamTails::page_of(std::uint32_t row) const {
  return reinterpret_cast<std::byte*>(tokens_.data()) + (odd_ * width_ + row) * layout_.page_bytes();
}

void BeamTails::follow(std::span<const std::uint32_t> parents) {
  if (paths_ == BeamPaths::copied) {
    for (std::uint32_t r = 0; r < parents.size(); ++r) {
      const std::byte* const from = page_of(parents[r]);
      odd_ = !odd_;
      std::memcpy(page_of(r), from, layout_.page_bytes());
      odd_ = !odd_;
    }
    odd_ = !odd_;
  }
  rows_.follow(parents);
}

void BeamTails::keep(const LayerKv& pass, std::uint32_t first_row, std::uint32_t rows, std::uint32_t layer) {
  if (!rows_.keeps()) return;
  const std::size_t vector = layout_.vector_bytes();
  for (std::uint32_t head = 0; head < layout_.kv_heads; ++head) {
    const KvRun from = pass.rows(head, first_row, rows);
    const auto* keys = static_cast<const std::byte*>(from.keys);
    const auto* values = static_cast<const std::byte*>(from.values);
    if (paths_ != BeamPaths::copied) {
      std::byte* const to = reinterpret_cast<std::byte*>(tokens_.data()) + rows_.level() * width_ * vector;
      std::memcpy(to + layout_.keys(layer, head), keys, rows * vector);
      std::memcpy(to + layout_.values(layer, head), values, rows * vector);
      continue;
    }
    for (std::uint32_t r = 0; r < rows; ++r) {
      std::byte* const to = page_of(r) + rows_.level() * vector;
      std::memcpy(to + layout_.keys(layer, head), keys + r * vector, vector);
      std::memcpy(to + layout_.values(layer, head), values + r * vector, vector);
    }
  }
}

void BeamTails::resolve(const LayerKv& pass, std::uint32_t first_row, std::uint32_t row, std::uint32_t rows,
                        std::uint32_t layer, std::uint32_t head, std::vector<KvRun>& runs) const {
  runs.clear();
  if (paths_ == BeamPaths::tree) return resolve_tree(pass, first_row, layer, head, runs);
  if (rows_.level() == 0) {
    runs.push_back(pass.rows(head, first_row + row, rows));
    return;
  }
  const std::size_t vector = layout_.vector_bytes(), keys = layout_.keys(layer, head),
                    values = layout_.values(layer, head);
  const auto* const page = reinterpret_cast<const std::byte*>(tokens_.data());
  for (std::uint32_t r = row; r < row + rows; ++r) {
    if (paths_ == BeamPaths::copied)
      runs.push_back(
          {page_of(r) + keys, page_of(r) + values, rows_.level(), layout_.head_dim, layout_.format});
    for (std::uint32_t level = 0; paths_ == BeamPaths::together && level < rows_.level(); ++level) {
      const std::byte* const token = page + (std::size_t{level} * width_ + rows_.row(level, r)) * vector;
      runs.push_back({token + keys, token + values, 1, layout_.head_dim, layout_.format});
    }
    runs.push_back(pass.rows(head, first_row + r, 1));
  }
}

void BeamTails::resolve_tree(const LayerKv& pass, std::uint32_t first_row, std::uint32_t layer,
                             std::uint32_t head, std::vector<KvRun>& runs) const {
  const auto* const first = reinterpret_cast<const std::byte*>(tokens_.data());
  for (std::uint32_t level = 0; level < rows_.level(); ++level) {
    const std::byte* const token = first + std::size_t{level} * width_ * layout_.vector_bytes();
    runs.push_back({token + layout_.keys(layer, head), token + layout_.values(layer, head),
                    level_rows_[level], layout_.head_dim, layout_.format});
  }
  runs.push_back(pass.rows(head, first_row, level_rows_.back()));
}

}  // namespace troupe::kernels
