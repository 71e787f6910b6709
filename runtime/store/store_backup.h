#pragma once
// Backs up the parts of a data folder that cannot be recomputed: profiles, catalog, and what is
// served. A backup is a folder with the store's files and `backup`, a list of the files with their
// checksums. The list is written last: a backup without it is unfinished.
#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

// Makes a backup in `to`, which must be empty or absent. `copy` was made by copy_to of a running
// store; it is changed, because its saved blocks are dropped. The coordination file of `data_dir`
// is included if there is one. Returns the backup's bytes, all of them durable. Throws StoreError.
std::uint64_t make_backup(const std::filesystem::path& copy, const std::filesystem::path& data_dir,
                          const std::filesystem::path& to);

// Returns what is wrong with a backup, such as "rocksdb/000012.sst: its sum is wrong". Empty:
// nothing.
std::vector<std::string> check_backup(const std::filesystem::path& from);

// Restores a backup into a data folder, which must be empty or absent. Version numbers continue far
// above the backup's, since some were used after it was made. Throws StoreError and leaves no
// partial store.
void restore_backup(const std::filesystem::path& from, const std::filesystem::path& data_dir);

}  // namespace troupe
