// Turns damage to a store's files, and the losses from it, into sentences for logs and operators.
#include "runtime/store/store_damage.h"

namespace troupe {

std::string_view name_of(Column column) {
  switch (column) {
    case Column::items:
      return "items";
    case Column::users:
      return "users";
    case Column::blocks:
      return "blocks";
    case Column::meta:
      return "meta";
  }
  return "";
}

std::string bytes_shown(std::string_view key) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte < 0x7F && c != '\\' && c != '"') {
      text += c;
    } else {
      text.append("\\x") += digits[byte >> 4];
      text += digits[byte & 15];
    }
  }
  return text;
}

std::string describe(const StoreDamage& damage) {
  std::string text = damage.file;
  if (damage.offset) text += " at byte " + std::to_string(*damage.offset);
  text += ": " + damage.what;
  if (damage.column) text += " (" + std::string(name_of(*damage.column)) + ")";
  return text;
}

std::string describe(const StoreLoss& loss) {
  const std::string where = loss.file.empty() ? "" : " (" + loss.file + ")";
  if (loss.is_versions()) {
    const std::string range = std::to_string(loss.first_version) + ".." + std::to_string(loss.last_version);
    return (loss.column == Column::users ? "writes of users with profile versions "
                                         : "writes of items with catalog versions ") +
           range + where;
  }
  std::string text = loss.rows_max > 0 ? "at most " + std::to_string(loss.rows_max) + " " : "";
  text += std::string(name_of(loss.column)) + " from \"" + bytes_shown(loss.from) + "\"";
  text += loss.to.empty() ? " to the end" : " up to \"" + bytes_shown(loss.to) + "\"";
  return text + where;
}

}  // namespace troupe
