#pragma once
// Checks the last bytes of a RocksDB table, which locate its parts. RocksDB 7.8 has no checksum
// over them and trusts their lengths: a few wrong bits make it allocate a terabyte, in a thread
// where that ends the process.
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

inline constexpr std::size_t table_footer_bytes = 53;

// Returns what is wrong with the footer of a table of `table_bytes` bytes; "" for nothing, and for
// faults that RocksDB itself notices.
std::string validate_footer(std::string_view footer, std::uint64_t table_bytes);

}  // namespace troupe
