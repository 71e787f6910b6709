// Reads JSON files that come from outside, with limits on size and depth, and takes them apart
// field by field. Every error names the file, the key, what was found and what was expected.
#include "kernels/checkpoint/json_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "kernels/checkpoint/file_kind.h"

namespace troupe::kernels {
namespace {

using nlohmann::json;

constexpr int kDepthMax = 32;  // the deepest known file has 4
constexpr std::size_t kShownMax = 100;

std::string shown(double value) {
  std::ostringstream text;
  text.precision(17);
  text << value;
  return text.str();
}

// Watches the parser. Refuses a document that is nested too deep, has too many values (each takes
// some tens of bytes) or has a key twice in one object (nlohmann keeps the last one).
class ParseWatch {
 public:
  ParseWatch(const std::filesystem::path& file, std::size_t values_max)
      : file_(file), values_max_(values_max) {}

  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (depth > kDepthMax)
      throw_load_error(file_, "nested too deep", "at most " + std::to_string(kDepthMax) + " levels");
    const bool ends = event == json::parse_event_t::object_end || event == json::parse_event_t::array_end;
    if (!ends && ++values_ > values_max_)
      throw_load_error(file_, "too many values", "at most " + std::to_string(values_max_));
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end) open_.pop_back();
    if (event == json::parse_event_t::key && !open_.back().insert(parsed.get<std::string>()).second)
      throw_load_error(file_, "key " + in_quotes(parsed.get<std::string>()) + " occurs twice in one object",
                       "unique keys");
    return true;
  }

 private:
  const std::filesystem::path& file_;
  std::size_t values_max_, values_ = 0;
  std::vector<std::set<std::string>> open_;  // keys of the objects that are being read, outermost first
};

}  // namespace

void throw_load_error(const std::filesystem::path& file, const std::string& wrong,
                      const std::string& expected) {
  throw LoadError(file.string() + ": " + wrong + "; expected " + expected);
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text.substr(0, kShownMax)) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return result + (text.size() > kShownMax ? "…\"" : "\"");
}

std::string describe(const json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_unsigned()) return std::to_string(value.get<std::uint64_t>());
  if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());
  if (value.is_number_float()) return shown(value.get<double>());
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return value.is_array() ? "an array" : "an object";
}

json parse_json(const std::filesystem::path& file, std::string_view text, std::size_t values_max) {
  try {
    return json::parse(text.begin(), text.end(), ParseWatch(file, values_max));
  } catch (const json::parse_error& error) {
    throw_load_error(file, "no valid JSON at byte " + std::to_string(error.byte) + kind_remark(text),
                     "a JSON document");
  } catch (const json::exception&) {  // a number that no double can hold
    throw_load_error(file, "a number is out of range", "numbers that a double can hold");
  }
}

json read_json_file(const std::filesystem::path& file, std::uint64_t bytes_max, std::size_t values_max) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    const bool hidden = error && error != std::errc::no_such_file_or_directory &&
                        error != std::errc::not_a_directory;  // such as in a folder without access
    throw_load_error(file, hidden ? "cannot be looked up: " + error.message() : "no such file",
                     "a JSON file");
  }
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error) throw_load_error(file, "cannot be read: " + error.message(), "a readable file");
  if (size > bytes_max)
    throw_load_error(file, std::to_string(size) + " bytes long",
                     "at most " + std::to_string(bytes_max) + " bytes");
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in.is_open())
    throw_load_error(file, "cannot be opened: " + std::generic_category().message(errno), "a readable file");
  std::string text(size, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size)))
    throw_load_error(file, "cannot be read", std::to_string(size) + " readable bytes");
  return parse_json(file, text, values_max);
}

JsonFields::JsonFields(const std::filesystem::path& file, const json& object, std::string where)
    : file_(file), object_(object), where_(std::move(where)) {
  if (!object_.is_object())
    throw_load_error(file_, (where_.empty() ? "the top level" : where_) + " is " + describe(object_),
                     "an object");
}

const json* JsonFields::find(std::string_view key) const {
  if (!read_.contains(key)) read_.emplace(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::uint64_t JsonFields::integer(std::string_view key, std::uint64_t least, std::uint64_t most) const {
  const auto value = maybe_integer(key, least, most);
  if (!value) fault(key, "an integer from " + std::to_string(least) + " to " + std::to_string(most));
  return *value;
}

std::optional<std::uint64_t> JsonFields::maybe_integer(std::string_view key, std::uint64_t least,
                                                       std::uint64_t most) const {
  const json* const value = find(key);
  if (!value) return std::nullopt;
  // The parser keeps every integer that is not negative and fits 64 bits as unsigned.
  if (!value->is_number_unsigned() || value->get<std::uint64_t>() < least ||
      value->get<std::uint64_t>() > most)
    fault(key, "an integer from " + std::to_string(least) + " to " + std::to_string(most));
  return value->get<std::uint64_t>();
}

double JsonFields::number(std::string_view key, double least, double most) const {
  const auto value = maybe_number(key, least, most);
  if (!value) fault(key, "a number from " + shown(least) + " to " + shown(most));
  return *value;
}

std::optional<double> JsonFields::maybe_number(std::string_view key, double least, double most) const {
  const json* const value = find(key);
  if (!value) return std::nullopt;
  const double found = value->is_number() ? value->get<double>() : NAN;
  if (!(found >= least && found <= most)) fault(key, "a number from " + shown(least) + " to " + shown(most));
  return found;
}

std::optional<bool> JsonFields::maybe_boolean(std::string_view key) const {
  const json* const value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) fault(key, "true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonFields::maybe_text(std::string_view key) const {
  const json* const value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) fault(key, "a string");
  return value->get<std::string>();
}

void JsonFields::refuse_others(std::span<const std::string_view> harmless) const {
  for (const auto& [key, value] : object_.items())
    if (!value.is_null() && !read_.contains(key) &&
        std::find(harmless.begin(), harmless.end(), key) == harmless.end())
      throw_load_error(file_, path_of(in_quotes(key)) + " is " + describe(value),
                       "only members that are read or known to be harmless, as another one may change what "
                       "the model computes; remove it if it does not");
}

void JsonFields::fault(std::string_view key, const std::string& expected) const {
  const auto found = object_.find(key);
  throw_load_error(file_, path_of(key) + (found == object_.end() ? " is missing" : " is " + describe(*found)),
                   expected);
}

std::string JsonFields::path_of(std::string_view key) const {
  return where_.empty() ? std::string(key) : where_ + "." + std::string(key);
}

}  // namespace troupe::kernels
