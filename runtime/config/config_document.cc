// Parses the text of a YAML configuration file: one document, with a bounded number of values.
#include "runtime/config/config_document.h"

#include <yaml-cpp/eventhandler.h>

#include <sstream>

#include "runtime/wire/json_text.h"

namespace troupe {
namespace {

constexpr std::size_t values_max = 50'000;  // per file, including keys
constexpr const char* many_values = "50000 values; expected sections of keys and values";

// Thrown for more values than any configuration needs; each takes some hundred bytes.
struct TooManyValues {
  YAML::Mark at;
};

// Counts documents and their values without keeping them. YAML::LoadAll would be simpler, but it
// takes a stray comma for an endless row of empty documents, until memory runs out.
class DocumentStarts final : public YAML::EventHandler {
 public:
  int count = 0;
  YAML::Mark last;

  void OnDocumentStart(const YAML::Mark& mark) override { ++count, last = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { take(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { take(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string&) override {
    take(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    take(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    take(mark);
  }
  void OnMapEnd() override {}

 private:
  void take(const YAML::Mark& mark) {
    if (values_left_-- == 0) throw TooManyValues{mark};
  }
  std::size_t values_left_ = values_max;
};

[[noreturn]] void fail_at_line(const std::string& path, std::size_t line, const std::string& what) {
  throw ConfigError(printable(path + ":" + std::to_string(line) + ": " + what));
}

// The library keeps some two hundred bytes for each of these characters that it has read ahead,
// before it reports any value.
void refuse_many_marks(const std::string& path, const std::string& text) {
  std::size_t marks = 0, line = 1;
  for (const char c : text) {
    line += c == '\n';
    marks += c == '[' || c == '{' || c == ',' || c == '?';
    if (marks > values_max) fail_at_line(path, line, std::string("has more than ") + many_values);
  }
}

void refuse_second_document(const std::string& path, const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStarts starts;
  while (starts.count < 2 && parser.HandleNextDocument(starts)) continue;
  if (starts.count == 2) fail_at(path, starts.last, "a second document begins; expected one");
}

}  // namespace

void fail_at(const std::string& path, const YAML::Mark& mark, const std::string& what) {
  if (!mark.is_null()) fail_at_line(path, static_cast<std::size_t>(mark.line) + 1, what);
  throw ConfigError(printable(path + ": " + what));
}

YAML::Node parse_document(const std::string& path, const std::string& text) {
  YAML::Node document;
  refuse_many_marks(path, text);
  try {
    refuse_second_document(path, text);
    document = YAML::Load(text);
  } catch (const TooManyValues& e) {
    fail_at(path, e.at, std::string("has more than ") + many_values);
  } catch (const YAML::Exception& e) {
    fail_at(path, e.mark, "is not valid YAML (" + e.msg + "); expected sections of keys and values");
  }
  return document;
}

}  // namespace troupe
