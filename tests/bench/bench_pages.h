#pragma once
// Allocates pages for benchmarks of executors: aligned, for a number of tokens, valid while the object lives.
#include <cstddef>
#include <vector>

#include "kernels/executor/executor.h"

namespace troupe::kernels {

struct Pages {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<std::vector<Line>> lines;

  std::vector<std::byte*> take(const PageLayout& layout, std::size_t tokens) {
    std::vector<std::byte*> taken;
    for (std::size_t p = 0; p < layout.pages_for(tokens); ++p) {
      lines.emplace_back((layout.page_bytes() + 63) / 64);
      taken.push_back(lines.back()[0].bytes);
    }
    return taken;
  }
};

}  // namespace troupe::kernels
