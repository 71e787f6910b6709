#pragma once
// Spreads numbers evenly over 64 bits (the finalizer of SplitMix64), for choices that must look
// random and be reproducible.
#include <cstdint>

namespace troupe {

constexpr std::uint64_t spread(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15ULL;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
  return number ^ (number >> 31);
}

}  // namespace troupe
