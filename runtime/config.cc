#include "runtime/config.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <set>
#include <sstream>

#include "kernels/check.h"
#include "runtime/json_text.h"

namespace troupe {
namespace {

constexpr std::size_t file_bytes_max = 1 << 20;
constexpr std::size_t quoted_bytes_max = 64;  // of a value that an error repeats

std::size_t index_of(const Knob& knob) { return static_cast<std::size_t>(&knob - knob_table().data()); }

std::string_view section_of(std::string_view name) { return name.substr(0, name.find('.')); }

// What could have stood instead of `name`: the keys of its section, or else the sections.
std::string known_names(std::string_view name) {
  std::string keys, sections;
  std::string_view last;
  for (const Knob& knob : knob_table()) {
    const std::string_view section = section_of(knob.name);
    if (section == section_of(name)) keys += (keys.empty() ? "" : ", ") + std::string(knob.name);
    if (section != last) sections += (sections.empty() ? "one of " : ", ") + std::string(section);
    last = section;
  }
  return keys.empty() ? sections : keys;
}

[[noreturn]] void unknown(std::string_view name) {
  throw ConfigError("there is no knob " + std::string(name.substr(0, quoted_bytes_max)) + "; expected " +
                    known_names(name));
}

// Where documents start; what they hold is passed over. YAML::LoadAll would be simpler, but it takes a
// stray comma for empty documents without end, until there is no memory.
class DocumentStarts final : public YAML::EventHandler {
 public:
  int count = 0;
  YAML::Mark last;

  void OnDocumentStart(const YAML::Mark& mark) override { ++count, last = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}
};

// Reads one file into a configuration; errors get the file's name and the line.
class FileReader {
 public:
  FileReader(std::string path, Config& config) : path_(std::move(path)), config_(config) {}

  void read() {
    const std::string text = contents();
    YAML::Node document;
    try {
      refuse_second_document(text);
      document = YAML::Load(text);
    } catch (const YAML::Exception& e) {
      fail(e.mark, "is no YAML (" + e.msg + "); expected sections of keys and values");
    }
    if (document.IsNull()) return;  // empty, or comments only
    read_map(document, "");
  }

 private:
  std::string contents() {
    std::ifstream file(path_, std::ios::binary);
    std::string text(file_bytes_max + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file.is_open() || file.bad()) throw ConfigError(path_ + ": cannot be read; expected a YAML file");
    text.resize(static_cast<std::size_t>(file.gcount()));
    if (text.size() > file_bytes_max)
      throw ConfigError(path_ + ": is larger than 1 MiB; expected a YAML file");
    return text;
  }

  void refuse_second_document(const std::string& text) {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    DocumentStarts starts;
    while (starts.count < 2 && parser.HandleNextDocument(starts)) continue;
    if (starts.count == 2) fail(starts.last, "a second document begins; expected one");
  }

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) {
    const std::string line = mark.is_null() ? "" : ":" + std::to_string(mark.line + 1);
    throw ConfigError(path_ + line + ": " + what);
  }

  // `section` is "" for the whole file. Knobs are two levels deep, so nothing is followed further.
  void read_map(const YAML::Node& map, const std::string& section) {
    if (!map.IsMap())
      fail(map.Mark(), (section.empty() ? "the file" : section) + " is no map; expected keys and values");
    for (const auto& entry : map) {
      const YAML::Node &key = entry.first, &value = entry.second;
      if (!key.IsScalar()) fail(key.Mark(), "a key is no word; expected " + known_names(section));
      const std::string name = section.empty() ? key.Scalar() : section + "." + key.Scalar();
      if (!seen_.insert(name).second) fail(key.Mark(), name + " stands twice; expected it once");
      if (section.empty())
        read_section(key, value, name);
      else
        read_knob(key, value, name);
    }
  }

  void read_section(const YAML::Node& key, const YAML::Node& value, const std::string& name) {
    for (const Knob& knob : knob_table()) {
      if (section_of(knob.name) != name) continue;
      if (!value.IsNull()) read_map(value, name);  // null: all its keys are comments
      return;
    }
    fail(key.Mark(),
         "there is no section " + name.substr(0, quoted_bytes_max) + "; expected " + known_names(""));
  }

  void read_knob(const YAML::Node& key, const YAML::Node& value, const std::string& name) {
    const Knob* knob = find_knob(name);
    if (knob == nullptr) at(key, [&] { unknown(name); });
    const bool wants_text = knob->kind == KnobKind::text || knob->kind == KnobKind::choice;
    const bool is_plain =
        value.IsScalar() && value.Tag() != "!";  // "!" is yaml-cpp's tag of what is in quotes
    const bool wants_quotes_too =
        wants_text || knob->kind == KnobKind::size || knob->kind == KnobKind::duration;
    if (!value.IsScalar()) fail(key.Mark(), name + " is no single value; expected " + expected_of(*knob));
    if (!is_plain && !wants_quotes_too)
      fail(value.Mark(), name + " is text in quotes; expected " + expected_of(*knob));
    at(value, [&] { config_.set(name, value.Scalar()); });
  }

  template <class Action>
  void at(const YAML::Node& node, Action action) {
    try {
      action();
    } catch (const ConfigError& e) {
      fail(node.Mark(), e.what());
    }
  }

  std::string path_;
  Config& config_;
  std::set<std::string> seen_;
};

std::string comment_of(const Knob& knob) {
  std::string line = "  # " + std::string(knob.help);
  if (knob.kind != KnobKind::text) line += " " + expected_of(knob) + ".";
  return line + "\n";
}

}  // namespace

Config::Config() {
  for (const Knob& knob : knob_table()) {
    auto value = parse_knob(knob, knob.initial);
    TROUPE_CHECK(std::holds_alternative<KnobValue>(value), knob.name);
    values_.push_back(std::move(std::get<KnobValue>(value)));
  }
}

void Config::set(std::string_view name, std::string_view text) {
  const Knob* knob = find_knob(name);
  if (knob == nullptr) unknown(name);
  auto value = parse_knob(*knob, text);
  if (const auto* fault = std::get_if<KnobFault>(&value)) {
    const std::string shown = text.empty() ? "empty" : std::string(text.substr(0, quoted_bytes_max));
    throw ConfigError(std::string(name) + " is " + shown + "; expected " + fault->expected);
  }
  values_[index_of(*knob)] = std::move(std::get<KnobValue>(value));
}

const KnobValue& Config::value(std::string_view name, KnobKind kind) const {
  const Knob* knob = find_knob(name);
  TROUPE_CHECK(knob != nullptr && knob->kind == kind, name);
  return values_[index_of(*knob)];
}

std::int64_t Config::integer(std::string_view name) const {
  return std::get<std::int64_t>(value(name, KnobKind::integer));
}
double Config::real(std::string_view name) const { return std::get<double>(value(name, KnobKind::real)); }
bool Config::boolean(std::string_view name) const { return std::get<bool>(value(name, KnobKind::boolean)); }
std::int64_t Config::size_bytes(std::string_view name) const {
  return std::get<std::int64_t>(value(name, KnobKind::size));
}
std::int64_t Config::duration_us(std::string_view name) const {
  return std::get<std::int64_t>(value(name, KnobKind::duration));
}
const std::string& Config::text(std::string_view name) const {
  const Knob* knob = find_knob(name);
  const bool is_choice = knob != nullptr && knob->kind == KnobKind::choice;
  return std::get<std::string>(value(name, is_choice ? KnobKind::choice : KnobKind::text));
}

Config load_config(const std::string& path) {
  Config config;
  FileReader(path, config).read();
  return config;
}

std::string example_yaml() {
  std::string out = "# Every knob with its default. A key that is left out has its default, too.\n";
  std::string_view section;
  for (const Knob& knob : knob_table()) {
    if (section_of(knob.name) != section) {
      section = section_of(knob.name);
      out += "\n" + std::string(section) + ":\n";
    }
    out += comment_of(knob) + "  " + std::string(knob.name.substr(section.size() + 1)) + ": ";
    if (knob.kind == KnobKind::text)
      append_json_string(out, knob.initial);  // also a YAML string
    else
      out += knob.initial;
    out += "\n";
  }
  return out;
}

}  // namespace troupe
