#pragma once
// Parses one line of a file that holds a JSON object with known fields. The parser is strict and builds no
// tree, because traces have millions of such lines. Its errors name file, line, field and expected value.
//
// nlohmann's SAX parser is not used: its events do not know their position in the line, and it allocates a
// string for each text before the reader can decide whether to use it.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/data/text_file.h"

namespace troupe::deploy {

class JsonLine {
 public:
  // `place` and `line` outlive this object.
  JsonLine(const LinePosition& place, std::string_view line) : place_(place), at_(line), name_() {}

  // Calls `read(name)` for each field of the object, in the line's order; `read` takes the field's value.
  template <class Read>
  void object(Read read) {
    open_object();
    for (bool more = !close_if_empty(); more; more = next_field()) {
      read_name();
      read(std::string_view(name_));
    }
    expect_end();
  }

  // Read the value of the current field. All throw ImportError.
  std::uint64_t number(std::uint64_t max);  // whole, not negative
  void text(std::string& out, std::size_t bytes_max);
  // Replaces the content of `out` and reuses its strings.
  void texts(std::vector<std::string>& out, std::size_t count_max, std::size_t bytes_max);

  [[noreturn]] void fail(std::string_view field, std::string_view expected) const;  // shows the unread text

 private:
  void open_object();
  bool close_if_empty();
  bool next_field();  // returns false at the object's end
  void read_name();
  void expect_end();
  void skip_space();
  bool take(char c);
  void read_text(std::string& out, const std::string& field, std::size_t bytes_max);
  void read_escape(std::string& out, const std::string& field);
  std::uint32_t read_hex(const std::string& field);

  const LinePosition& place_;
  std::string_view at_;  // the unread part of the line
  std::string name_;
};

}  // namespace troupe::deploy
