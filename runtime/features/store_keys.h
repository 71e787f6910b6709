#pragma once
// Keys of a RocksFeaturePort in the column `meta` of its store; store_check.h has the others.
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
