#pragma once
// Seeded damage to bytes and to texts of the kinds that we read (JSON, YAML, tables): the fuzz tests' source
// of hostile input. Equal seeds do equal damage, so a number is enough to see a failure again.
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

// Bits, bytes, runs and ends, with no regard to what they mean.
void damage_bytes(std::string& bytes, Chance& chance);

// Puts a value of another type, range or length in the place of a number, a word or a string.
void damage_text(std::string& text, Chance& chance);

}  // namespace troupe::fuzz
