// Finds the records of models that are not recorded any more, and deletes them.
#include "deploy/node/record_folders.h"

#include <system_error>
#include <vector>

#include "runtime/records/record_store.h"

namespace troupe::deploy {
namespace {

std::filesystem::path all_records(const std::filesystem::path& data_dir) { return data_dir / "replay"; }

}  // namespace

std::filesystem::path record_folder(const std::filesystem::path& data_dir, const std::string& model) {
  return model.empty() ? all_records(data_dir) : all_records(data_dir) / "models" / model;
}

void delete_other_records(const std::filesystem::path& data_dir, const std::set<std::string>& models) {
  const std::filesystem::path all = all_records(data_dir);
  if (models.empty()) return delete_records(all);
  std::vector<std::filesystem::path> others;
  if (!models.contains("")) others.push_back(all / "rocksdb");
  std::error_code failure;
  std::filesystem::directory_iterator at(all / "models", failure);
  for (; !failure && at != std::filesystem::directory_iterator(); at.increment(failure))
    if (!models.contains(at->path().filename().string())) others.push_back(at->path());
  if (failure && failure != std::errc::no_such_file_or_directory)  // else no model has a name
    throw UndeletableRecords(StoreFault::failed, (all / "models").string() +
                                                     " may hold users' histories and cannot be listed (" +
                                                     failure.message() + "); expected a readable folder");
  for (const std::filesystem::path& folder : others) delete_records(folder);
}

}  // namespace troupe::deploy
