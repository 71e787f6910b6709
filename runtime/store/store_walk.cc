// Visits a range of keys in RocksDB and continues after a damaged part, whose end it finds by
// bisection over keys. One bad disk block thus costs only the rows in it.
#include "runtime/store/store_walk.h"

#include <optional>

#include "runtime/store/store_rocks.h"

namespace troupe {
namespace {

constexpr std::size_t key_bytes_max = 1024;  // longer than any stored key
const std::string near_enough(16, '\xff');

// True if a search for this key fails with exactly this error text.
bool search_fails_with(const MakeIterator& make, const std::string& key, const std::string& words) {
  const auto at = make();
  at->Seek(key);
  return !at->Valid() && !at->status().ok() && at->status().ToString() == words;
}

// Returns the smallest key above all keys with this prefix; empty: there is none.
std::string beyond(std::string key) {
  while (!key.empty() && key.back() == '\xff') key.pop_back();
  if (!key.empty()) key.back() = static_cast<char>(static_cast<unsigned char>(key.back()) + 1);
  return key;
}

// Finds the first key after the damage, byte by byte: the greatest key whose search fails (`from`
// and all smaller keys count as failing), plus one byte. If failing keys come arbitrarily close to
// one that does not, returns that one. Returns nullopt if the damage extends to the end.
std::optional<std::string> find_damage_end(const MakeIterator& make, const std::string& from,
                                           const std::string& words) {
  const auto is_damaged = [&](const std::string& key) {
    return key <= from || search_fails_with(make, key, words);
  };
  std::string last;
  while (last.size() < key_bytes_max && !last.ends_with(near_enough)) {
    int low = -1, high = 256;  // with `low` as the next byte the search fails, with `high` it does not
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (is_damaged(last + static_cast<char>(middle)) ? low : high) = middle;
    }
    if (low < 0) return last + '\0';
    last += static_cast<char>(low);
  }
  const std::string end = beyond(last);
  if (end.empty()) return {};
  return end;
}

}  // namespace

rocksdb::Status walk(const MakeIterator& make, std::string_view from, std::string_view to,
                     const UseStoreEntry& use, const UseStoreGap& skip) {
  std::string next(from);
  for (;;) {
    const auto at = make();
    for (at->Seek(next); at->Valid(); at->Next()) {
      if (!to.empty() && view(at->key()) >= to) return {};
      next.assign(view(at->key()));
      if (!use(next, view(at->value()))) return {};
      next += '\0';  // smallest key after it
    }
    const rocksdb::Status status = at->status();
    if (status.ok() || !skip || !is_damage(status)) return status;
    const std::string words = status.ToString();
    const auto end = find_damage_end(make, next, words);
    skip({next, end ? *end : std::string(to), words});
    if (!end || (!to.empty() && *end >= to)) return {};
    next = *end;
  }
}

}  // namespace troupe
