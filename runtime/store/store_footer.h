#pragma once
// The last bytes of a RocksDB table, which say where its parts lie. RocksDB (7.8) has no sum over them and
// believes their lengths: a few wrong bits, and it asks for a terabyte, in a thread where that ends the
// process.
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

inline constexpr std::size_t table_footer_bytes = 53;

// What is wrong with the footer of a table of so many bytes; "": nothing, or nothing that RocksDB would not
// notice.
std::string find_footer_fault(std::string_view footer, std::uint64_t table_bytes);

}  // namespace troupe
