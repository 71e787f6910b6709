#pragma once
// Test helper: page memory with all bits set, which is NaN in every format.
#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/executor/executor.h"

namespace troupe::kernels {

struct PoisonedPages {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  PageLayout layout;
  std::vector<std::vector<Line>> pages;

  std::vector<std::byte*> take(std::size_t tokens) {
    std::vector<std::byte*> taken;
    for (std::size_t p = 0; p < layout.pages_for(tokens); ++p) {
      pages.emplace_back((layout.page_bytes() + 63) / 64);
      taken.push_back(pages.back()[0].bytes);
      std::memset(taken.back(), 0xff, layout.page_bytes());
    }
    return taken;
  }
};

}  // namespace troupe::kernels
