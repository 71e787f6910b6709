#pragma once
// Walks a range of keys and goes on behind what cannot be read. Only runtime/store includes it.
#include <rocksdb/iterator.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/store/store_gap.h"

namespace troupe {

using MakeIterator = std::function<std::unique_ptr<rocksdb::Iterator>()>;

// Keys in [from, to) in order of bytes (`to` empty: to the end). Where a block is damaged, the end of its
// range is found by bisection over keys, since a search for any of them meets the same block and is told the
// same words: `skip` is called with that range, and the walk goes on behind it. Fails if the disk does in
// another way, or without `skip`. Each search has an iterator of its own: in RocksDB 7.8 one that has met
// damage may go on to say so.
rocksdb::Status walk(const MakeIterator& make, std::string_view from, std::string_view to,
                     const UseStoreEntry& use, const UseStoreGap& skip);

}  // namespace troupe
