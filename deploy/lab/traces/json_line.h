#pragma once
// One line of a file that holds a JSON object of known fields: strict, without a tree in memory, and with
// errors that name file, line, field and what was expected. Traces have millions of such lines.
//
// Not nlohmann's SAX: its events come without the place in the line, so that no error could name one, and
// each text is a string of its own before anybody says whether it is wanted.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/data/text_file.h"

namespace troupe::deploy {

class JsonLine {
 public:
  // Both outlive it.
  JsonLine(const LinePlace& place, std::string_view line) : place_(place), at_(line), name_() {}

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

  // The value of the field at hand. All throw ImportError.
  std::uint64_t number(std::uint64_t max);  // whole, not negative
  void text(std::string& out, std::size_t bytes_max);
  // Replaces what is in `out`, whose strings are used again.
  void texts(std::vector<std::string>& out, std::size_t count_max, std::size_t bytes_max);

  [[noreturn]] void fail(std::string_view field, std::string_view expected) const;  // at what comes next

 private:
  void open_object();
  bool close_if_empty();
  bool next_field();  // false: the object ends here
  void read_name();
  void expect_end();
  void skip_space();
  bool take(char c);
  void read_text(std::string& out, const std::string& field, std::size_t bytes_max);
  void read_escape(std::string& out, const std::string& field);
  std::uint32_t read_hex(const std::string& field);

  const LinePlace& place_;
  std::string_view at_;  // what is not read yet
  std::string name_;
};

}  // namespace troupe::deploy
