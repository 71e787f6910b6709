#pragma once
// Folder of the model versions of a rollout (model.versions), with a model directory for each. A version is a
// hash of everything that a model computes with. A directory is named by the version that it holds, or by any
// other name, by which operators and clients may then call the version. What such a directory holds is known
// once its model has been opened, and remembered until its files change.
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "deploy/models/model_families.h"

namespace troupe::deploy {

// Returns true for the form of a version: a SHA-256 in hexadecimal digits.
bool is_version(std::string_view word);

class VersionFolder {
 public:
  // `config`: of the model; its model.versions is not empty, and its model.weights is resolved. Reads
  // nothing. `auto_weights`: auto was configured. A version for which auto stands for another format is
  // refused, because the names of blocks have one format of this node's.
  VersionFolder(ModelFamilies families, Config config, bool auto_weights = false);

  struct OpenedVersion {
    std::filesystem::path directory;
    const ModelFamily* family = nullptr;  // belongs to this object
    OpenedModel model;
  };
  // Opens the model of a version: in the directory of that name, or in another one, of which those that
  // changed last come first. Throws LoadError if none holds it, or if auto stands for another format.
  OpenedVersion open(const std::string& version);

  // Versions that a word means: as the name of a directory, as a version, or as the beginning of one.
  // Empty: none is known. More than one: the word is ambiguous. Opens the model of a named directory,
  // which may take long. Throws LoadError for a directory whose model cannot be opened.
  std::set<std::string> versions_of(const std::string& word);

  // Opens directories, those that changed last first, until one holds the version. Those that cannot be
  // opened are left out. Opens none for a version that was learned to be elsewhere.
  void look_for(const std::string& version);

  // Remembers what a directory holds, or that this version is in no directory of this folder.
  void learn(const std::filesystem::path& directory, const std::string& version);

  // Both know what was opened or learned, and read no model.
  std::string names_of(const std::string& version) const;    // separated by commas; "" = none
  std::string known_version(const std::string& name) const;  // "" = none

 private:
  struct DirectoryContent {
    std::string files;  // names, sizes and times
    std::string version;
  };
  std::optional<std::string> held_by(const std::string& name) const;  // nothing if it is not known
  std::vector<std::string> named_directories() const;                 // those that changed last first
  OpenedVersion open_directory(const std::filesystem::path& directory);
  OpenedVersion find(const std::string& version);
  void validate_weights(const std::filesystem::path& directory) const;
  std::optional<OpenedVersion> open_named(const std::string& version);

  const ModelFamilies families_;
  const Config config_;
  const bool auto_weights_;
  const std::filesystem::path folder_;
  std::mutex opening_;        // held while models are opened: one at a time, because each takes memory
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, DirectoryContent> held_;  // by the directory's name
  std::set<std::string> elsewhere_;               // versions
};

}  // namespace troupe::deploy
