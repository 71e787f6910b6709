// Reads the tree and fails where its words or its form break the rules of CONTRIBUTING.md: comments that open
// as fragments, private names for what the field has a term for, a glossary type defined twice, lines that
// are too wide, files that clang-format would change. Each rule is tried on a planted breach first.
#include <doctest/doctest.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/testing/test_folder.h"
#include "tests/source_tree.h"

namespace troupe::tidy {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t columns_max = 110;

bool is_script(const std::string& path) { return path.ends_with(".py") || path.ends_with(".sh"); }

// A test, or a helper of tests: their types are their own.
bool is_for_tests(const std::string& path) {
  return path.starts_with("tests/") || path.find("_test.") != path.npos ||
         path.find("/testing/") != path.npos;
}

// Counts characters, not bytes, of a UTF-8 line.
std::size_t columns(const std::string& line) {
  std::size_t count = 0;
  for (const char c : line) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::string width_breach(const std::string& path, const std::string& line) {
  if (!is_code(path) && !is_script(path)) return "";
  if (columns(line) <= columns_max) return "";
  return std::to_string(columns(line)) + " columns; expected at most " + std::to_string(columns_max);
}

// ---- comments ----

// Returns the text of a line that is nothing but a comment, or nothing. A shebang and a ruler are no
// comments.
std::string comment_text(const std::string& path, const std::string& line) {
  const std::string mark = is_script(path) ? "#" : "//";
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == line.npos || line.compare(begin, mark.size(), mark) != 0) return "";
  if (line.compare(begin, 2, "#!") == 0) return "";
  const std::size_t text = line.find_first_not_of("/#! ", begin);
  if (text == line.npos || line.compare(text, 2, "--") == 0) return "";
  return line.substr(text);
}

// Returns a breach for each block of comment lines whose first word leaves the subject out.
std::vector<std::string> fragment_breaches(const SourceFile& file) {
  static const std::set<std::string> openings{"Of",    "What", "Who", "Whose", "Whom", "That",
                                              "Those", "Than", "By",  "And",   "Nor",  "Such"};
  std::vector<std::string> breaches;
  if (!is_code(file.path) && !is_script(file.path)) return breaches;
  bool inside = false;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string text = comment_text(file.path, file.lines[i]);
    if (!text.empty() && !inside) {
      std::string first = text.substr(0, text.find(' '));
      while (!first.empty() && std::string_view(",.:;").find(first.back()) != std::string_view::npos)
        first.pop_back();
      if (openings.contains(first))
        breaches.push_back(file.path + ":" + std::to_string(i + 1) + ": a comment opens with \"" + first +
                           "\"; expected a noun or a verb in the third person");
    }
    inside = !text.empty();
  }
  return breaches;
}

// ---- names ----

// Blanks comments, string literals and character literals of C++ text; line breaks stay.
std::string without_texts(const std::string& text) {
  std::string out = text;
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to && i < out.size(); ++i)
      if (out[i] != '\n') out[i] = ' ';
  };
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    const bool after_word =
        i > 0 && (std::isalnum(static_cast<unsigned char>(text[i - 1])) || text[i - 1] == '_');
    if (text.compare(i, 2, "//") == 0) {
      end = std::min(text.find('\n', i), text.size());
      blank(i, end);
    } else if (text.compare(i, 2, "R\"") == 0 && !after_word) {
      const std::size_t open = text.find('(', i);
      const std::string close = ")" + text.substr(i + 2, open - i - 2) + "\"";
      end = std::min(text.find(close, open), text.size() - close.size()) + close.size();
      blank(i, end);
    } else if (text[i] == '"' || (text[i] == '\'' && !after_word)) {
      while (end < text.size() && text[end] != text[i] && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      blank(i, end);
    }
    i = end;
  }
  return out;
}

std::string joined(const SourceFile& file) {
  std::string text;
  for (const std::string& line : file.lines) text += line + "\n";
  return text;
}

// Splits HttpServer, http_server and kHttpServer into lower-case words.
std::vector<std::string> words_of(std::string_view identifier) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < identifier.size(); ++i) {
    const auto c = static_cast<unsigned char>(identifier[i]);
    const bool starts = c == '_' || (std::isupper(c) && i > 0 &&
                                     !std::isupper(static_cast<unsigned char>(identifier[i - 1])));
    if (starts && !words.back().empty()) words.emplace_back();
    if (c != '_') words.back() += static_cast<char>(std::tolower(c));
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

struct PrivateWord {
  std::string_view word;                          // within an identifier
  std::string_view standard;                      // what to say instead
  std::vector<std::string_view> allowed_in = {};  // prefixes of paths where it is the field's own term
};

// Words that only this project used for things that have a name (words within identifiers). Accessors of wire
// fields, which keep their names, are allowed in runtime/wire/; SIMD and warp lanes in kernels/.
const std::vector<PrivateWord>& private_words() {
  static const std::vector<PrivateWord> words{
      {"door", "server", {"runtime/wire/"}},
      {"knob", "setting"},
      {"seat", "model actor id"},
      {"seats", "model actor ids"},
      {"deafness", "stall"},
      {"audience", "subscribers"},
      {"patience", "wait deadline"},
      {"foresight", "what-if simulation"},
      {"planted", "mutant"},
      {"guest", "connection, non-home user or joining node", {"runtime/wire/"}},
      {"guests", "connections, non-home users or joining nodes"},
      {"room", "capacity, free pages or budget"},
      {"rooms", "capacities or components"},
      {"house", "system"},
      {"told", "reported or announced"},
      {"resting", "evictable"},
      {"lane", "executor slot", {"kernels/", "runtime/wire/"}},
      {"lanes", "executor slots", {"kernels/", "runtime/wire/"}},
  };
  return words;
}

// Types that are no nouns, and functions whose names hide that they refuse.
const std::map<std::string, std::string, std::less<>>& private_names() {
  static const std::map<std::string, std::string, std::less<>> names{
      {"Asked", "RequestOrigin"},     {"Seen", "ObservedRequest"},        {"Held", "a noun"},
      {"Considered", "PlanOption"},   {"Making", "PendingBlock"},         {"Writing", "PendingWrite"},
      {"Parked", "a noun"},           {"Place", "what it is a place of"}, {"Box", "node"},
      {"find_excess", "reject_if_…"}, {"find_obstacle", "reject_if_…"},   {"HandOn", "Migration"},
      {"hand_on", "migrate"},
  };
  return names;
}

std::string name_breach(const std::string& path, std::string_view identifier) {
  if (const auto name = private_names().find(identifier); name != private_names().end())
    return "the name " + name->first + "; expected " + name->second;
  for (const std::string_view prefix : {"see_to_", "tell_", "make_room", "find_no_"})
    if (identifier.starts_with(prefix))
      return "the name " + std::string(identifier) +
             "; expected advance_, report_, evict_ or reject_if_ and what it does";
  for (const std::string& word : words_of(identifier))
    for (const PrivateWord& entry : private_words()) {
      if (entry.word != word) continue;
      bool allowed = false;
      for (const std::string_view prefix : entry.allowed_in) allowed |= path.starts_with(prefix);
      if (!allowed)
        return "\"" + word + "\" in " + std::string(identifier) + "; expected " + std::string(entry.standard);
    }
  return "";
}

std::vector<std::string> name_breaches(const SourceFile& file) {
  std::vector<std::string> breaches;
  if (!is_code(file.path)) return breaches;
  const std::string text = without_texts(joined(file));
  std::size_t line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') ++line;
    if (!std::isalpha(static_cast<unsigned char>(text[i])) && text[i] != '_') continue;
    std::size_t end = i;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
      ++end;
    if (i == 0 || !std::isdigit(static_cast<unsigned char>(text[i - 1])))  // not the suffix of a number
      if (const std::string breach = name_breach(file.path, std::string_view(text).substr(i, end - i));
          !breach.empty())
        breaches.push_back(file.path + ":" + std::to_string(line) + ": " + breach);
    i = end - 1;
  }
  return breaches;
}

// ---- the glossary ----

// Returns the terms of the glossary: the first cells of the table under "## Glossary", as type names
// (KvCache).
std::set<std::string> glossary_types(const SourceFile& architecture) {
  std::set<std::string> types;
  bool inside = false;
  for (const std::string& line : architecture.lines) {
    if (line.starts_with("## ")) inside = line == "## Glossary";
    if (!inside || !line.starts_with("| ")) continue;
    std::istringstream cell(line.substr(2, line.find(" |", 2) - 2));
    for (std::string term; std::getline(cell, term, ',');) {
      std::string type;
      bool upper = true;
      for (const char c : term) {
        if (!std::isalpha(static_cast<unsigned char>(c))) {
          upper = true;
          continue;
        }
        type += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
        upper = false;
      }
      if (!type.empty()) types.insert(type);
    }
  }
  return types;
}

// Returns the name of a type that a line at the beginning of a column defines, or nothing.
std::string defined_type(const std::string& line) {
  for (const std::string_view keyword : {"struct ", "class ", "enum class ", "enum "}) {
    if (!line.starts_with(keyword) || line.find('{') == line.npos || line.find(';') < line.find('{'))
      continue;
    const std::size_t end = line.find_first_of(" :{", keyword.size());
    const std::string name = line.substr(keyword.size(), end - keyword.size());
    if (!name.empty() && std::isupper(static_cast<unsigned char>(name.front()))) return name;
  }
  return "";
}

std::vector<std::string> glossary_breaches(const std::set<std::string>& terms,
                                           const std::vector<SourceFile>& files) {
  std::map<std::string, std::set<std::string>> defined;
  for (const SourceFile& file : files) {
    if (!is_code(file.path) || is_for_tests(file.path)) continue;
    for (const std::string& line : file.lines)
      if (const std::string name = defined_type(line); terms.contains(name)) defined[name].insert(file.path);
  }
  std::vector<std::string> breaches;
  for (const auto& [name, paths] : defined) {
    if (paths.size() < 2) continue;
    std::string text = name + " is a term of the glossary and is defined in several files:";
    for (const std::string& path : paths) text += " " + path;
    breaches.push_back(text);
  }
  return breaches;
}

// ---- form ----

// Returns the output of a command, or nothing if it cannot run.
std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe.get())) text += part.data();
  return text;
}

// Returns the version of clang-format whose output is the rule, or nothing where it is not installed.
std::string formatter() {
  for (const char* name : {"clang-format-14", "clang-format"})
    if (output_of(std::string(name) + " --version 2>/dev/null").find("version 14.") != std::string::npos)
      return name;
  return "";
}

// Returns the files that clang-format would change, a line each.
std::string unformatted(const std::string& formatter, const fs::path& root,
                        const std::vector<std::string>& paths) {
  const kernels::TestFolder folder;
  {
    std::ofstream list(folder.path() / "files");
    for (const std::string& path : paths) list << path << '\0';
  }
  return output_of("cd '" + root.string() + "' && xargs -0 -P 2 -n 100 " + formatter + " --dry-run <'" +
                   (folder.path() / "files").string() +
                   "' 2>&1 | sed -nE 's/^([^: ]+):[0-9]+:[0-9]+: .*/\\1/p' | sort -u");
}

}  // namespace

TEST_SUITE("tidy words") {
  TEST_CASE("tidy words: a line over 110 columns is found, in code and scripts") {
    CHECK(width_breach("a.cc", std::string(111, 'x')) != "");
    CHECK(width_breach("a.py", std::string(111, 'x')) != "");
    CHECK(width_breach("a.cc", std::string(110, 'x')) == "");
    CHECK(width_breach("a.md", std::string(111, 'x')) == "");
    std::string wide;
    for (int i = 0; i < 110; ++i) wide += "é";
    CHECK(width_breach("a.cc", wide) == "");
  }

  TEST_CASE("tidy words: a comment that opens as a fragment is found") {
    CHECK(fragment_breaches({"a.cc", {"int x;", "  // Of users, who come.", "  // That go on."}}).size() ==
          1);
    CHECK(fragment_breaches({"a.py", {"# What it is."}}).size() == 1);
    CHECK(fragment_breaches({"a.sh", {"#!/bin/sh", "# By: nobody"}}).size() == 1);
    CHECK(fragment_breaches({"a.cc", {"// Returns the users", "// Of a node."}}).empty());
    CHECK(fragment_breaches({"a.cc", {"int x;  // Of users"}}).empty());
    CHECK(fragment_breaches({"a.md", {"# What it is."}}).empty());
  }

  TEST_CASE("tidy words: a private word within an identifier is found, in code alone") {
    for (const char* line :
         {"struct DoorConfig {", "int knob_of(Node n);", "auto see_to_reload();", "if (find_no_worker())",
          "int lanes = 2;", "struct Place {", "const auto room = 5;", "page_pool.hand_on();"})
      CHECK_MESSAGE(name_breaches({"router/a.cc", {line}}).size() == 1, line);
    for (const char* line :
         {"// the door of a room", "log(\"a door\");", "int outdoors;", "int place = 0;", "int headroom;",
          "auto s = R\"(a door)\";", "const char c = '\"'; int line;", "return turn_back;", "x = 1'000;"})
      CHECK_MESSAGE(name_breaches({"router/a.cc", {line}}).empty(), line);
    CHECK(name_breaches({"kernels/cpu/a.cc", {"int lanes = 2;"}}).empty());
    CHECK(name_breaches({"router/a.cc", {"", "", "Door door;"}}).front().starts_with("router/a.cc:3: "));
  }

  TEST_CASE("tidy words: a second definition of a glossary type is found") {
    const std::set<std::string> terms =
        glossary_types({"ARCHITECTURE.md",
                        {"| nothing | x |", "## Glossary", "| term | meaning |", "| --- | --- |",
                         "| read lease | how long |", "| hot, frequency | uses |", "## Next", "| no | x |"}});
    CHECK(terms == std::set<std::string>{"Term", "ReadLease", "Hot", "Frequency"});
    const SourceFile first{"a/x.h", {"struct ReadLease {"}}, second{"b/y.h", {"class ReadLease : Lease {"}};
    CHECK(glossary_breaches(terms, {first, second}).size() == 1);
    CHECK(glossary_breaches(terms, {first, {"b/y.h", {"class ReadLease;", "  struct ReadLease {"}}}).empty());
    CHECK(glossary_breaches(terms, {first, {"b/y_test.cc", {"struct ReadLease {"}}}).empty());
  }

  TEST_CASE("tidy words: a file that clang-format would change is found") {
    if (formatter().empty()) {
      MESSAGE("skipped: clang-format 14 is not installed");
      return;
    }
    const kernels::TestFolder folder;
    fs::copy_file(fs::path(TROUPE_ROOT_DIR) / ".clang-format", folder.path() / ".clang-format");
    std::ofstream(folder.path() / "good.cc") << "int main() { return 0; }\n";
    std::ofstream(folder.path() / "bad.cc") << "int main( ) {return 0;}\n";
    CHECK(unformatted(formatter(), folder.path(), {"good.cc", "bad.cc"}) == "bad.cc\n");
  }

  TEST_CASE("tidy words: the tree keeps the rules") {
    const std::vector<SourceFile> files = read_tree(TROUPE_ROOT_DIR);
    CHECK(files.size() > 50);
    std::ostringstream found;
    std::vector<std::string> code;
    std::set<std::string> terms;
    for (const SourceFile& file : files) {
      for (std::size_t i = 0; i < file.lines.size(); ++i)
        if (const std::string breach = width_breach(file.path, file.lines[i]); !breach.empty())
          found << file.path << ":" << i + 1 << ": " << breach << "\n";
      for (const std::string& breach : fragment_breaches(file)) found << breach << "\n";
      if (file.path != "tests/tidy_words_test.cc")
        for (const std::string& breach : name_breaches(file)) found << breach << "\n";
      if (file.path == "ARCHITECTURE.md") terms = glossary_types(file);
      if (is_code(file.path)) code.push_back(file.path);
    }
    CHECK(terms.size() > 20);
    for (const std::string& breach : glossary_breaches(terms, files)) found << breach << "\n";
    if (const std::string program = formatter(); !program.empty())
      found << unformatted(program, TROUPE_ROOT_DIR, code);
    else
      MESSAGE("skipped: whether clang-format 14, which is not installed, would change a file");
    CHECK_MESSAGE(found.str().empty(), found.str());
  }
}

}  // namespace troupe::tidy
