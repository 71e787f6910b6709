#pragma once
// Names the version counters of a RocksFeaturePort (the single node's feature store) in the column
// `meta` of its RocksDB, and encodes its counters and notes. store_check.h has the other keys.
#include <string>
#include <string_view>

#include "runtime/store/store.h"
#include "runtime/store/store_check.h"
#include "runtime/store/store_rows.h"

namespace troupe {

inline constexpr std::string_view profiles_key = counter_keys[0],
                                  catalog_key = counter_keys[1];  // written last

inline Change counter_change(std::string_view key, std::uint64_t value) {
  return {Column::meta, std::string(key), encode_counter(value, key)};
}
inline Change note_change(std::string_view key, std::string_view text) {
  return {Column::meta, std::string(key), encode_note(text, key)};
}

}  // namespace troupe
