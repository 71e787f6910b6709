// Parses gin files: bindings, macros and Python's literals.
#include "deploy/convert/gin_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "kernels/checkpoint/json_file.h"
#include "runtime/config/whole_file.h"

namespace troupe::deploy {
namespace {

constexpr int gin_depth_max = 16;
constexpr std::size_t gin_bindings_max = 10'000;
constexpr std::size_t gin_copied_values_max = 100'000;  // by macros, which may contain others

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '/';
}

std::string_view trimmed_gin(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

struct GinMacro {
  GinValue value;
  std::size_t values = 0;     // in it, with itself
  std::uint64_t used_by = 0;  // line; 0 = none
};
using GinMacros = std::map<std::string, GinMacro, std::less<>>;

// Returns the number of values in a value, with itself.
std::size_t values_in(const GinValue& value) {
  std::size_t values = 1;
  if (const auto* list = std::get_if<GinList>(&value.value))
    for (const GinValue& inner : *list) values += values_in(inner);
  return values;
}

struct GinFault : std::runtime_error {
  explicit GinFault(const std::string& wrong,
                    std::string wanted = "a number, a text, True, False, None or a list")
      : std::runtime_error(wrong), expected(std::move(wanted)) {}
  std::string expected;
};

// Reads one literal. Throws GinFault.
class GinLiteral {
 public:
  // `copied` counts the values that macros stand for.
  GinLiteral(std::string_view text, std::uint64_t line, GinMacros& macros, std::size_t& copied)
      : rest_(text), line_(line), macros_(macros), copied_(copied) {}

  GinValue whole() {
    GinValue value = next(0);
    skip();
    if (!rest_.empty()) throw GinFault("has " + kernels::in_quotes(rest_) + " behind its value");
    return value;
  }

 private:
  void skip() {
    for (;;) {
      while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
      if (rest_.empty() || rest_.front() != '#') return;
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
    }
  }

  GinValue next(int depth) {
    skip();
    if (depth > gin_depth_max) throw GinFault("is nested too deep");
    if (rest_.empty()) throw GinFault("has no value");
    const char first = rest_.front();
    if (first == '\'' || first == '"') return texts();
    if (first == '[' || first == '(') return list(first == '[' ? ']' : ')', depth);
    if (first == '{') return dictionary(depth);
    if (first == '@') return {GinReference{reference()}};
    if (first == '%') return macro();
    return word();
  }

  // Adjacent texts are one, as in Python.
  GinValue texts() {
    std::string text;
    while (!rest_.empty() && (rest_.front() == '\'' || rest_.front() == '"')) {
      text += quoted();
      skip();
    }
    return {text};
  }
  std::string quoted() {
    const char quote = rest_.front();
    std::string text;
    for (std::size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == quote) {
        rest_.remove_prefix(i + 1);
        return text;
      }
      if (rest_[i] == '\n') break;
      if (rest_[i] == '\\' && i + 1 < rest_.size()) ++i;
      text += rest_[i];
    }
    throw GinFault("has a text without an end");
  }

  GinValue list(char end, int depth) {
    rest_.remove_prefix(1);
    GinList items;
    bool comma = true;
    for (;;) {
      skip();
      if (rest_.empty()) throw GinFault("has a list without an end");
      if (rest_.front() == end) break;
      if (!comma) throw GinFault("has a list without a comma");
      items.push_back(next(depth + 1));
      skip();
      comma = !rest_.empty() && rest_.front() == ',';
      if (comma) rest_.remove_prefix(1);
    }
    rest_.remove_prefix(1);
    const bool parenthesis = end == ')' && items.size() == 1 && !comma;  // (1) is 1, (1,) a tuple
    if (parenthesis) return GinValue(items.front());
    return {std::move(items)};
  }

  // A dictionary is read over and kept as a reference: no value that a conversion needs is one.
  GinValue dictionary(int depth) {
    rest_.remove_prefix(1);
    for (;;) {
      skip();
      if (rest_.empty()) throw GinFault("has a dictionary without an end");
      if (rest_.front() == '}') break;
      if (rest_.front() == ',' || rest_.front() == ':')
        rest_.remove_prefix(1);
      else
        next(depth + 1);
    }
    rest_.remove_prefix(1);
    return {GinReference{"{…}"}};
  }

  std::string_view name() {
    std::size_t length = 0;
    while (length < rest_.size() && is_word(rest_[length])) ++length;
    const std::string_view name = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return name;
  }
  std::string reference() {
    rest_.remove_prefix(1);
    std::string found(name());
    if (rest_.starts_with("()")) rest_.remove_prefix(2), found += "()";
    return found;
  }
  GinValue macro() {
    rest_.remove_prefix(1);
    const std::string_view asked = name();
    const auto found = macros_.find(asked);
    if (found == macros_.end())
      throw GinFault("uses the macro " + kernels::in_quotes(asked) + ", which no line above defines",
                     "its definition before its use");
    GinMacro& macro = found->second;
    if (macro.used_by == 0) macro.used_by = line_;
    copied_ += macro.values;
    if (copied_ > gin_copied_values_max)
      throw GinFault("stands for too many values, with the macros of the lines above",
                     "at most " + std::to_string(gin_copied_values_max));
    return macro.value;
  }

  GinValue word() {
    std::size_t length = 0;
    while (length < rest_.size() && (is_word(rest_[length]) || rest_[length] == '-' || rest_[length] == '+'))
      ++length;
    std::string word(rest_.substr(0, length));
    rest_.remove_prefix(length);
    if (word == "True") return {true};
    if (word == "False") return {false};
    if (word == "None") return {GinNone{}};
    std::erase(word, '_');
    if (word.starts_with('+')) word.erase(0, 1);
    const char *begin = word.data(), *end = word.data() + word.size();
    std::int64_t integer = 0;
    if (const auto read = std::from_chars(begin, end, integer); read.ec == std::errc() && read.ptr == end)
      return {integer};
    double real = 0;
    if (const auto read = std::from_chars(begin, end, real);
        read.ec == std::errc() && read.ptr == end && std::isfinite(real))
      return {real};
    throw GinFault("has the value " + kernels::in_quotes(word));
  }

  std::string_view rest_;
  const std::uint64_t line_;
  GinMacros& macros_;
  std::size_t& copied_;
};

// Cuts the text into statements: a line, and those that its open brackets go on to.
class GinStatements {
 public:
  explicit GinStatements(std::string_view text) : text_(text) {}

  // Returns the next statement that is not empty, without a comment behind it.
  std::optional<std::string_view> next() {
    while (begin_ < text_.size()) {
      first_line_ = line_;
      const std::string_view statement = trimmed_gin(cut());
      if (!statement.empty()) return statement;
    }
    return std::nullopt;
  }
  std::uint64_t line() const { return first_line_; }

 private:
  std::string_view cut() {
    std::size_t end = std::string_view::npos;  // of the statement, before its comment
    std::size_t at = begin_;
    for (int open = 0; at < text_.size(); ++at) {
      const char c = text_[at];
      if (c == '\'' || c == '"') at = end_of_text(at);
      if (c == '#') {
        if (open == 0) end = std::min(end, at);
        at = std::min(text_.find('\n', at), text_.size()) - 1;
        continue;
      }
      open += (c == '[' || c == '(' || c == '{') - (c == ']' || c == ')' || c == '}');
      if (at < text_.size() && text_[at] == '\n') {
        ++line_;
        if (open <= 0) break;
      }
    }
    const std::size_t stop = std::min(end, at), begin = std::exchange(begin_, std::min(at, text_.size()) + 1);
    return text_.substr(begin, stop - begin);
  }
  // Returns the position of a text's last character, or of the line's end.
  std::size_t end_of_text(std::size_t at) const {
    const char quote = text_[at];
    for (++at; at < text_.size(); ++at) {
      if (text_[at] == '\\')
        ++at;
      else if (text_[at] == quote)
        return at;
      else if (text_[at] == '\n')
        return at - 1;
    }
    return text_.size();
  }

  std::string_view text_;
  std::size_t begin_ = 0;
  std::uint64_t line_ = 1, first_line_ = 1;
};

// Returns "function.parameter" of a binding's full name, with its scope: modules before the function do
// not count.
std::string short_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::string scope(slash == name.npos ? "" : name.substr(0, slash + 1));
  if (slash != name.npos) name.remove_prefix(slash + 1);
  const std::size_t last = name.rfind('.');
  const std::size_t before = last == name.npos || last == 0 ? name.npos : name.rfind('.', last - 1);
  if (before != name.npos) name.remove_prefix(before + 1);
  return scope + std::string(name);
}

std::string number_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

}  // namespace

GinFile::GinFile(std::filesystem::path file, std::string_view text) : file_(std::move(file)) {
  GinStatements statements(text);
  GinMacros macros;
  std::size_t copied = 0;
  const auto fail = [&](const std::string& wrong, const std::string& expected) {
    kernels::throw_load_error(file_.string() + ":" + std::to_string(statements.line()), wrong, expected);
  };
  while (const auto statement = statements.next()) {
    if (statement->starts_with("import ") || statement->starts_with("from ")) {
      imports_.emplace_back(*statement);
      continue;
    }
    if (statement->starts_with("include "))
      fail("includes another file", "all bindings in one file, such as operative_config.gin");
    const std::size_t equals = statement->find('=');
    const std::string_view name = trimmed_gin(statement->substr(0, std::min(equals, statement->size())));
    if (equals == statement->npos || name.empty() || !std::ranges::all_of(name, is_word))
      fail(kernels::in_quotes(*statement) + " is no binding", "function.parameter = value");
    const std::string_view value = trimmed_gin(statement->substr(equals + 1));
    try {
      const GinValue read = GinLiteral(value, statements.line(), macros, copied).whole();
      if (name.find('.') == name.npos) {
        // In gin, the last definition counts for the uses above it, too.
        GinMacro& macro = macros[std::string(name)];
        if (macro.used_by != 0)
          throw GinFault("is defined again, behind its use in line " + std::to_string(macro.used_by),
                         "one definition");
        macro = {read, values_in(read), 0};
      }
      bindings_.insert_or_assign(short_name(name), GinBinding{read, std::string(value), statements.line()});
    } catch (const GinFault& fault) {
      fail(kernels::in_quotes(name) + " " + fault.what(), fault.expected);
    }
    if (bindings_.size() > gin_bindings_max)
      fail("one binding too many", "at most " + std::to_string(gin_bindings_max));
  }
}

GinFile read_gin_file(const std::filesystem::path& file) {
  try {
    return {file, read_whole_file(file.string(), GinFile::bytes_max, "a gin file")};
  } catch (const FileError& error) {
    throw kernels::LoadError(error.what());
  }
}

const GinBinding* GinReader::take(std::string_view name, bool has_default) {
  asked_.emplace(name);
  const auto found = file_.bindings().find(name);
  if (found != file_.bindings().end()) return &found->second;
  if (has_default) return nullptr;
  kernels::throw_load_error(file_.path(), "there is no " + std::string(name),
                            "a binding, as the code has no default");
}

void GinReader::assume(std::string_view name, const std::string& value) {
  assumed_.push_back(std::string(name) + " = " + value);
}

void GinReader::fault(std::string_view name, const std::string& expected) const {
  const GinBinding& binding = file_.bindings().find(name)->second;
  kernels::throw_load_error(file_.path().string() + ":" + std::to_string(binding.line),
                            std::string(name) + " is " + kernels::in_quotes(binding.text), expected);
}

std::uint64_t GinReader::integer(std::string_view name, std::optional<std::uint64_t> code,
                                 std::uint64_t least, std::uint64_t most) {
  const GinBinding* const binding = take(name, code.has_value());
  if (binding == nullptr) return assume(name, std::to_string(*code)), *code;
  const auto* value = std::get_if<std::int64_t>(&binding->value.value);
  if (value == nullptr || *value < 0 || static_cast<std::uint64_t>(*value) < least ||
      static_cast<std::uint64_t>(*value) > most)
    fault(name, "an integer from " + std::to_string(least) + " to " + std::to_string(most));
  return static_cast<std::uint64_t>(*value);
}

double GinReader::number(std::string_view name, std::optional<double> code, double least, double most) {
  const GinBinding* const binding = take(name, code.has_value());
  if (binding == nullptr) return assume(name, number_text(*code)), *code;
  double number = NAN;
  if (const auto* real = std::get_if<double>(&binding->value.value)) number = *real;
  if (const auto* integer = std::get_if<std::int64_t>(&binding->value.value))
    number = static_cast<double>(*integer);
  if (!(number >= least && number <= most))
    fault(name, "a number from " + number_text(least) + " to " + number_text(most));
  return number;
}

bool GinReader::boolean(std::string_view name, std::optional<bool> code) {
  const GinBinding* const binding = take(name, code.has_value());
  if (binding == nullptr) return assume(name, *code ? "True" : "False"), *code;
  const auto* value = std::get_if<bool>(&binding->value.value);
  if (value == nullptr) fault(name, "True or False");
  return *value;
}

std::string GinReader::text(std::string_view name, std::optional<std::string> code) {
  const GinBinding* const binding = take(name, code.has_value());
  if (binding == nullptr) return assume(name, "\"" + *code + "\""), *code;
  const auto* value = std::get_if<std::string>(&binding->value.value);
  if (value == nullptr) fault(name, "a text");
  return *value;
}

std::vector<std::string> GinReader::names(std::string_view name) {
  const GinBinding* const binding = take(name, false);
  const auto* list = std::get_if<GinList>(&binding->value.value);
  if (list == nullptr) fault(name, "a list");
  std::vector<std::string> all;
  for (const GinValue& item : *list) {
    const auto* text = std::get_if<std::string>(&item.value);
    const auto* reference = std::get_if<GinReference>(&item.value);
    if (text == nullptr && reference == nullptr) fault(name, "texts or references");
    all.push_back(text != nullptr ? *text : reference->name);
  }
  return all;
}

std::vector<std::uint64_t> GinReader::integers(std::string_view name, std::uint64_t least,
                                               std::uint64_t most) {
  const GinBinding* const binding = take(name, false);
  const auto* list = std::get_if<GinList>(&binding->value.value);
  if (list == nullptr || list->empty()) fault(name, "a list of integers");
  std::vector<std::uint64_t> all;
  for (const GinValue& item : *list) {
    const auto* value = std::get_if<std::int64_t>(&item.value);
    if (value == nullptr || *value < static_cast<std::int64_t>(least) ||
        *value > static_cast<std::int64_t>(most))
      fault(name, "integers from " + std::to_string(least) + " to " + std::to_string(most));
    all.push_back(static_cast<std::uint64_t>(*value));
  }
  return all;
}

std::optional<std::int64_t> GinReader::maybe_integer(std::string_view name) {
  const GinBinding* const binding = take(name, true);
  if (binding == nullptr || std::holds_alternative<GinNone>(binding->value.value)) return std::nullopt;
  const auto* value = std::get_if<std::int64_t>(&binding->value.value);
  if (value == nullptr) fault(name, "an integer");
  return *value;
}

bool GinReader::is_ignored(std::string_view name) const {
  if (const std::size_t slash = name.rfind('/'); slash != name.npos) name.remove_prefix(slash + 1);
  return ignored_.contains(name) || ignored_.contains(std::string(name.substr(0, name.find('.'))) + ".*");
}

void GinReader::reject_unknown(std::string_view function) const {
  for (const std::string& name : unknown())
    if (name.starts_with(function) && name.substr(function.size()).starts_with('.'))
      fault(name,
            "a parameter of the published code, as another one may change what the model computes; "
            "remove it if it does not");
}

std::vector<std::string> GinReader::without_effect() const {
  std::vector<std::string> names;
  for (const auto& [name, binding] : file_.bindings())
    if (!asked_.contains(name) && is_ignored(name)) names.push_back(name);
  return names;
}

std::vector<std::string> GinReader::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, binding] : file_.bindings())
    if (!asked_.contains(name) && !is_ignored(name) && name.find('.') != name.npos) names.push_back(name);
  return names;
}

}  // namespace troupe::deploy
