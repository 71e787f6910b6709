// Finds the directory of a model version, and the version that a name means.
#include "deploy/node/version_folder.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "deploy/models/engine.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t version_digits = 64;
constexpr std::size_t beginning_digits_min = 7;  // of a version that is named by its beginning

bool is_hexadecimal(std::string_view word) {
  return std::ranges::all_of(word, [](char c) { return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f'); });
}

// The name comes from a request, so it must not contain a path.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('\0') == name.npos &&
         fs::path(name).filename() == name;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Returns names, sizes and times of a directory's files: other content is noticed by them.
std::string files_of(const fs::path& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const auto size = fs::file_size(at->path(), error);
    const auto time = error ? fs::file_time_type() : fs::last_write_time(at->path(), error);
    if (error) {  // a folder, or a link to nothing
      error.clear();
      continue;
    }
    files.push_back(at->path().filename().string() + " " + std::to_string(size) + " " +
                    std::to_string(time.time_since_epoch().count()) + "\n");
  }
  std::ranges::sort(files);
  std::string all;
  for (const std::string& file : files) all += file;
  return all;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t shown_max = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), shown_max); ++i) text += (i > 0 ? ", " : "") + names[i];
  return text + (names.size() > shown_max ? ", …" : "");
}

}  // namespace

bool is_version(std::string_view word) { return word.size() == version_digits && is_hexadecimal(word); }

VersionFolder::VersionFolder(ModelFamilies families, Config config, bool auto_weights)
    : families_(std::move(families)),
      config_(std::move(config)),
      auto_weights_(auto_weights),
      folder_(config_.model.versions) {}

void VersionFolder::validate_weights(const fs::path& directory) const {
  if (!auto_weights_) return;
  ModelSettings settings = config_.model;
  settings.weights = ModelSettings::Weights::auto_;
  resolve_weights(settings, directory);
  if (settings.weights == config_.model.weights) return;
  const std::string ours(word_of(config_.model.weights)), theirs(word_of(settings.weights));
  kernels::throw_load_error(
      directory,
      "model.weights is auto, which is " + theirs + " for this version and " + ours +
          " for the model that the node started with",
      "a version stored in the same number format, or model.weights " + ours + ", which reads both");
}

std::optional<std::string> VersionFolder::held_by(const std::string& name) const {
  const std::string files = files_of(folder_ / name);
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(name);
  if (held == held_.end() || held->second.files != files) return std::nullopt;
  return held->second.version;
}

std::vector<std::string> VersionFolder::named_directories() const {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (is_version(name) || name.starts_with('.') || !is_folder(at->path())) continue;
    std::error_code ignored;
    found.emplace_back(fs::last_write_time(at->path(), ignored), name);
  }
  std::ranges::sort(found, std::greater());
  std::vector<std::string> names;
  for (auto& [time, name] : found) names.push_back(std::move(name));
  return names;
}

VersionFolder::OpenedVersion VersionFolder::open_directory(const fs::path& directory) {
  const std::string files = files_of(directory);
  const ModelFamily& family = family_of(families_, directory);
  OpenedVersion opened{directory, &family, family.open(directory, config_)};
  const std::lock_guard lock(mutex_);
  held_[directory.filename().string()] = {files, opened.model.version};
  return opened;
}

// Opens the named directory that holds the version; nothing if none does.
std::optional<VersionFolder::OpenedVersion> VersionFolder::open_named(const std::string& version) {
  std::vector<std::string> unknown;
  for (const std::string& name : named_directories()) {
    const auto held = held_by(name);
    if (held && *held == version)
      if (OpenedVersion opened = open_directory(folder_ / name); opened.model.version == version)
        return opened;
    if (!held) unknown.push_back(name);
  }
  for (const std::string& name : unknown) {
    try {
      if (OpenedVersion opened = open_directory(folder_ / name); opened.model.version == version)
        return opened;
    } catch (const std::exception&) {  // not the directory that is looked for
    }
  }
  return std::nullopt;
}

VersionFolder::OpenedVersion VersionFolder::open(const std::string& version) {
  OpenedVersion opened = find(version);
  validate_weights(opened.directory);
  return opened;
}

VersionFolder::OpenedVersion VersionFolder::find(const std::string& version) {
  if (!is_plain_name(version))
    kernels::throw_load_error(folder_, "there is no version " + kernels::in_quotes(version),
                              "the name of a folder in it");
  const std::lock_guard opening(opening_);
  const fs::path directory = folder_ / version;
  if (is_folder(directory)) {
    OpenedVersion opened = open_directory(directory);
    if (opened.model.version == version) return opened;
    kernels::throw_load_error(directory, "it holds model " + opened.model.version,
                              is_version(version)
                                  ? "the model that the folder is named after"
                                  : "that version in the request: the node that was asked for this name has "
                                    "no such directory in its model.versions");
  }
  if (is_version(version))
    if (auto opened = open_named(version)) return std::move(*opened);
  std::error_code why;
  const bool exists = fs::status(directory, why).type() != fs::file_type::not_found;
  const std::vector<std::string> named = named_directories();
  kernels::throw_load_error(
      directory, exists && why ? why.message() : "no such folder",
      "the model directory of that version, or another one in this folder that holds it" +
          (named.empty() ? "" : ": " + listed(named)));
}

std::set<std::string> VersionFolder::versions_of(const std::string& word) {
  if (is_version(word)) return {word};
  std::set<std::string> versions;
  if (is_plain_name(word) && is_folder(folder_ / word)) {
    const std::lock_guard opening(opening_);
    const auto held = held_by(word);
    versions.insert(held ? *held : open_directory(folder_ / word).model.version);
  }
  if (word.size() < beginning_digits_min || !is_hexadecimal(word)) return versions;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error))
    if (const std::string name = at->path().filename().string(); is_version(name) && name.starts_with(word))
      versions.insert(name);
  const std::lock_guard lock(mutex_);
  for (const auto& [name, held] : held_)
    if (held.version.starts_with(word)) versions.insert(held.version);
  return versions;
}

void VersionFolder::look_for(const std::string& version) {
  const std::lock_guard opening(opening_);
  {
    const std::lock_guard lock(mutex_);
    if (elsewhere_.contains(version)) return;
  }
  for (const std::string& name : named_directories()) {
    if (const auto held = held_by(name)) {
      if (*held == version) return;
      continue;
    }
    try {
      if (open_directory(folder_ / name).model.version == version) return;
    } catch (const std::exception&) {  // it has no model that this program reads
    }
  }
}

void VersionFolder::learn(const fs::path& directory, const std::string& version) {
  std::error_code ignored;
  fs::path place = fs::absolute(directory, ignored).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();  // "versions/spring/"
  const bool is_here = fs::equivalent(place.parent_path(), folder_, ignored);
  const std::string name = place.filename().string(), files = files_of(place);
  const std::lock_guard lock(mutex_);
  if (is_here)
    held_[name] = {files, version};
  else
    elsewhere_.insert(version);
}

std::string VersionFolder::names_of(const std::string& version) const {
  const std::lock_guard lock(mutex_);
  std::string names;
  for (const auto& [name, held] : held_)
    if (held.version == version && !is_version(name)) names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::string VersionFolder::known_version(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(name);
  return held == held_.end() ? "" : held->second.version;
}

}  // namespace troupe::deploy
