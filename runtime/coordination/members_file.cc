// Saves a node's last view of the cluster's members in its data folder. If etcd loses its data,
// this view shows which node numbers are taken. A checksum keeps damaged data from being written
// back to etcd.
#include "runtime/coordination/members_file.h"

#include <xxhash.h>

#include <charconv>
#include <string_view>
#include <utility>
#include <variant>

#include "runtime/config/whole_file.h"
#include "runtime/coordination/file_coordination.h"

namespace troupe {
namespace {

constexpr Incarnation incarnation_max = Incarnation{1} << 62;  // clocks are far below
constexpr std::string_view second_word = "incarnation ";
constexpr std::size_t kept_bytes_max = 2 << 20;  // more than any members text

std::string sum_line(std::string_view text) {
  return "sum " + std::to_string(XXH3_64bits(text.data(), text.size())) + "\n";
}

// Returns the text without its checksum line; empty if the checksum is wrong or missing.
std::string_view summed(std::string_view text) {
  const std::size_t last_line = text.size() < 2 ? text.npos : text.rfind('\n', text.size() - 2);
  if (last_line == text.npos) return {};
  const std::string_view rest = text.substr(0, last_line + 1);
  return text.substr(last_line + 1) == sum_line(rest) ? rest : std::string_view{};
}

}  // namespace

MembersFile::MembersFile(const std::filesystem::path& folder, std::string cluster, Incarnation own)
    : path_(folder.empty() ? folder : folder / "members"),
      first_line_("cluster " + std::move(cluster) + "\n"),
      own_(own) {}

MembersFile::MembersFileContent MembersFile::read() const {
  std::error_code unknown;
  if (path_.empty() || !std::filesystem::exists(path_, unknown)) return {};
  const auto wrong = [&](const std::string& what) {
    return MembersFileContent{{},
                              0,
                              path_.string() + ": " + what +
                                  "; expected the file that this node wrote about its cluster's members"};
  };
  std::string text;
  try {
    text = read_whole_file(path_.string(), kept_bytes_max, "the cluster's members as this node knew them");
  } catch (const FileError& error) {
    return {{}, 0, error.what()};
  }
  if (!text.starts_with("cluster ")) return wrong("it does not begin with the cluster's name");
  if (!text.starts_with(first_line_)) return {};  // another cluster's file
  std::string_view rest = summed(text);
  if (rest.empty()) return wrong("its last line is not the sum of all bytes before");
  rest.remove_prefix(first_line_.size());
  Incarnation incarnation = 0;
  if (rest.starts_with(second_word)) {
    rest.remove_prefix(second_word.size());
    const char* const end = std::from_chars(rest.data(), rest.data() + rest.size(), incarnation).ptr;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  if (incarnation == 0 || incarnation > incarnation_max || !rest.starts_with('\n'))
    return wrong("its second line is not an incarnation");
  auto parsed = parse_members(rest.substr(1));
  if (const auto* fault = std::get_if<std::string>(&parsed)) return wrong("after the second line, " + *fault);
  return {std::move(std::get<ClusterMembers>(parsed)), incarnation, ""};
}

std::string MembersFile::write(const ClusterMembers& members) const {
  if (path_.empty()) return "";
  const std::string text =
      first_line_ + std::string(second_word) + std::to_string(own_) + "\n" + members_text(members);
  const ReplaceOutcome done = replace_file(path_, text + sum_line(text));
  return done.what == ReplaceOutcome::What::done ? "" : path_.string() + ": " + done.fault;
}

}  // namespace troupe
