#include "kernels/cpu/engine/beam_tails.h"

#include <algorithm>
#include <cstring>

namespace troupe::kernels {
namespace {

KvLayout layout_of(KvLayout model, std::uint32_t width, std::uint32_t steps, BeamPaths paths) {
  const std::uint32_t levels = PathRows::levels(steps);
  if (paths == BeamPaths::together)
    model.page_tokens = width * levels;
  else
    model.page_tokens *= static_cast<std::uint32_t>(model.pages_for(levels));
  return model;
}

}  // namespace

std::size_t BeamTails::bytes(const KvLayout& model, std::uint32_t width, std::uint32_t steps,
                             BeamPaths paths) {
  const std::size_t page = layout_of(model, width, steps, paths).page_bytes();
  return paths == BeamPaths::together ? page : 2 * width * page;
}

void BeamTails::begin(const KvLayout& model, std::uint32_t width, std::uint32_t steps, BeamPaths paths) {
  paths_ = paths;
  layout_ = layout_of(model, width, steps, paths);
  width_ = width;
  rows_.begin(width, steps);
  tokens_.reserve((bytes(model, width, steps, paths) + sizeof(float) - 1) / sizeof(float));
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
    if (paths_ == BeamPaths::together) {
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
  if (rows_.level() == 0) {
    runs.push_back(pass.rows(head, first_row + row, rows));
    return;
  }
  const std::size_t vector = layout_.vector_bytes(), keys = layout_.keys(layer, head),
                    values = layout_.values(layer, head);
  const auto* const page = reinterpret_cast<const std::byte*>(tokens_.data());
  for (std::uint32_t r = row; r < row + rows; ++r) {
    if (paths_ == BeamPaths::copied)
      runs.push_back({page_of(r) + keys, page_of(r) + values, rows_.level(), layout_.head_dim, layout_.format});
    for (std::uint32_t level = 0; paths_ == BeamPaths::together && level < rows_.level(); ++level) {
      const std::byte* const token =
          page + (std::size_t{level} * width_ + rows_.row(level, r)) * vector;
      runs.push_back({token + keys, token + values, 1, layout_.head_dim, layout_.format});
    }
    runs.push_back(pass.rows(head, first_row + r, 1));
  }
}

}  // namespace troupe::kernels
