#pragma once
// Seeded damage to bytes and to texts of the formats that we read (JSON, YAML, tables): the source of
// hostile input for the fuzz tests. Equal seeds do equal damage, so the seed is enough to repeat a
// failure.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace troupe::fuzz {

using Chance = std::mt19937_64;

std::size_t draw(Chance& chance, std::size_t below);  // in [0, below)

template <class Value>
const Value& pick(Chance& chance, const std::vector<Value>& values) {
  return values[draw(chance, values.size())];
}

// Changes bits, bytes, runs and ends, whatever they mean.
void damage_bytes(std::string& bytes, Chance& chance);

// Replaces a number, a word or a string by a value of another type, range or length.
void damage_text(std::string& text, Chance& chance);

}  // namespace troupe::fuzz
