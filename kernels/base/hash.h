#pragma once
// Hashes that are the same on every machine, for choices that must look random and be reproducible: keys,
// samples, seeds. They protect against no attacker.
#include <cstdint>
#include <string_view>

namespace troupe {

inline constexpr std::uint64_t splitmix64_step = 0x9e3779b97f4a7c15;

// Spreads numbers evenly over 64 bits (SplitMix64, Steele et al. 2014): every input bit affects every output
// bit, and the mapping is one-to-one.
constexpr std::uint64_t spread(std::uint64_t number) {
  number += splitmix64_step;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

// Returns the next number of the SplitMix64 generator with this state.
constexpr std::uint64_t next_random(std::uint64_t& state) {
  const std::uint64_t number = spread(state);
  state += splitmix64_step;
  return number;
}

// Adds one byte, or one larger number, to a hash (FNV-1a).
constexpr std::uint64_t fnv1a_add(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x100000001b3;
}

constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = fnv1a_add(hash, static_cast<unsigned char>(c));
  return hash;
}

}  // namespace troupe
