#pragma once
// One attack on one reader of external bytes: it announces a huge size, or never ends. The reader must
// refuse it with a text that says what is wrong, where, and what was expected, and may allocate no more
// memory than its bound.
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::readers {

struct Attack {
  std::string_view reader;  // a name in readers.h
  std::string name;
  std::size_t bytes_max = 0;
  std::function<std::string()> run;  // returns the reader's text; the text of an exception counts, too
  std::vector<std::string> says;     // texts that it must contain
};

inline constexpr std::size_t kib = 1 << 10, mib = 1 << 20;

std::vector<Attack> network_attacks();
std::vector<Attack> file_attacks();
std::vector<Attack> store_attacks();
std::vector<Attack> ucx_attacks();

}  // namespace troupe::readers
