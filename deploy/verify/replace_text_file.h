#pragma once
// Replaces a file at once and durably.
#include <filesystem>
#include <string>

namespace troupe::deploy {

// Replaces a file: readers see the old text or the new one, also after a loss of power. A symbolic link is
// followed, and stays. The new file has the mode, owner and group of the old one. Throws std::runtime_error
// that names the step that failed; then the old file is unchanged and its folder has no other file.
// Returns "", or why a loss of power may undo the replacement.
std::string replace_text_file(const std::filesystem::path& file, const std::string& text);

}  // namespace troupe::deploy
