#pragma once
// Copies of what of a data folder cannot be made anew: profiles and catalog, and what is served. A backup is
// a folder with the store's files and `backup`, a list of all of them with their sums, which is written last:
// without it a backup was not finished.
#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

// What a running store made with copy_to (`copy`, which is changed: its saved blocks are left out) and the
// coordination file of `data_dir`, if there is one, become a backup in `to`, which must be empty or absent.
// All of it is on the disk at the end. Throws StoreError. How many bytes it has.
std::uint64_t make_backup(const std::filesystem::path& copy, const std::filesystem::path& data_dir,
                          const std::filesystem::path& to);

// What is wrong with a backup: "rocksdb/000012.sst: its sum is wrong". Empty: nothing.
std::vector<std::string> check_backup(const std::filesystem::path& from);

// The data folder, which must be empty or absent, as the backup has it. Version numbers go on far above the
// backup's, since some were given out after it was made. Throws StoreError, and leaves no half of it.
void restore_backup(const std::filesystem::path& from, const std::filesystem::path& data_dir);

}  // namespace troupe
