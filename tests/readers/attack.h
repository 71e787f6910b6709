#pragma once
// One attack on one reader of bytes from outside: it announces very much, or never ends. The reader has to
// refuse it, in words that say what is wrong, where, and what was expected, and may ask for no more memory
// than its bound.
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::readers {

struct Attack {
  std::string_view reader;  // of readers.h
  std::string name;
  std::size_t bytes_max = 0;
  std::function<std::string()> run;  // what the reader said; thrown words count too
  std::vector<std::string> says;     // each of which is in that
};

inline constexpr std::size_t kib = 1 << 10, mib = 1 << 20;

std::vector<Attack> network_attacks();
std::vector<Attack> file_attacks();
std::vector<Attack> store_attacks();
std::vector<Attack> ucx_attacks();

}  // namespace troupe::readers
