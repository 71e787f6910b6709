#pragma once
// Folders of a node's records of answered requests (replay.keep), below node.data_dir: `replay` of a
// model without a name, `replay/models/NAME` of one among several.
#include <filesystem>
#include <set>
#include <string>

namespace troupe::deploy {

std::filesystem::path record_folder(const std::filesystem::path& data_dir, const std::string& model);

// Deletes the records of all models but these: they hold histories, and nothing else would ever erase
// them. Throws StoreError if that fails.
void delete_other_records(const std::filesystem::path& data_dir, const std::set<std::string>& models);

}  // namespace troupe::deploy
