#pragma once
// Visits the rows in a range of keys and continues after damaged parts, so that one bad disk block
// costs only its own rows. Only runtime/store includes it.
#include <rocksdb/iterator.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/store/store_gap.h"

namespace troupe {

using MakeIterator = std::function<std::unique_ptr<rocksdb::Iterator>()>;

// Visits keys in [from, to) in byte order (`to` empty: to the end). The end of a damaged range is
// found by bisection over keys, since a search for any key in it meets the same block and gives the
// same error text. `skip` is called with that range and the walk continues after it. Fails on any
// other disk failure, or on damage without `skip`. Each search uses its own iterator: in RocksDB
// 7.8 one that met damage may keep reporting it.
rocksdb::Status walk(const MakeIterator& make, std::string_view from, std::string_view to,
                     const UseStoreEntry& use, const UseStoreGap& skip);

}  // namespace troupe
