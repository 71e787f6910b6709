#include "deploy/data/csv_file.h"

#include <doctest/doctest.h>

#include <random>

using namespace troupe::deploy;

namespace csv_file_test {
namespace {

using Records = std::vector<std::vector<std::string>>;

CsvFile csv_of(std::string text) { return {"t.csv", ByteSource::of_bytes(std::move(text))}; }

// The header is the first record.
Records records_of(std::string text) {
  CsvFile csv = csv_of(std::move(text));
  Records records{csv.header()};
  for (std::vector<std::string> fields; csv.next(fields);) records.push_back(fields);
  return records;
}

std::string error_of(std::string text) {
  try {
    records_of(std::move(text));
  } catch (const ImportError& error) {
    return error.what();
  }
  return "none";
}

std::string csv_quoted(const std::string& field) {
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

}  // namespace

TEST_SUITE("csv file") {
  TEST_CASE("csv: quoted fields keep commas, quotes and ends of lines") {
    CHECK(records_of("a,b\r\n\"x, y\",\"say \"\"hi\"\"\"\r\n\"two\r\nlines\",\n\"\",end") ==
          Records{{"a", "b"}, {"x, y", "say \"hi\""}, {"two\r\nlines", ""}, {"", "end"}});
  }

  TEST_CASE("csv: blank lines are no records, and blanks belong to fields") {
    CHECK(records_of("a,b\n\n\r\n 1 , 2\n\n") == Records{{"a", "b"}, {" 1 ", " 2"}});
  }

  TEST_CASE("csv: a byte order mark at the beginning of the file is skipped, and nowhere else") {
    CHECK(records_of("\xef\xbb\xbf\"a\",b\n1,2\n") == Records{{"a", "b"}, {"1", "2"}});
    CHECK(records_of("a\n\xef\xbb\xbf"
                     "1\n")[1][0] ==
          "\xef\xbb\xbf"
          "1");
  }

  TEST_CASE("csv: drawn records come back, however their fields are written") {
    std::mt19937_64 random(4180);
    const std::string alphabet = "ab\",\r\n \xc3\xa9";
    for (int round = 0; round < 300; ++round) {
      const std::size_t columns = 1 + random() % 4;
      Records records(1 + random() % 5);
      std::string text;
      for (std::size_t i = 0; i < records.size(); ++i) {
        for (std::size_t k = 0; k < columns; ++k) {
          std::string field(i == 0 ? 1 : 0, static_cast<char>('A' + k));
          for (std::size_t n = random() % 6; n > 0; --n) {
            const char c = alphabet[random() % 7];
            field += c;
          }
          const bool plain = field.find_first_of("\",\r\n") == field.npos && !(columns == 1 && field.empty());
          text += (k > 0 ? "," : "") + (plain && random() % 2 == 0 ? field : csv_quoted(field));
          records[i].push_back(field);
        }
        text += random() % 2 == 0 ? "\n" : "\r\n";
      }
      CAPTURE(text);
      CHECK(records_of(text) == records);
    }
  }

  TEST_CASE("csv: faults name line and column, and what was expected") {
    CHECK(error_of("") == "t.csv:1: the file is empty; expected a header line that names the columns");
    CHECK(error_of("a,b\n1,x\"y\n") ==
          "t.csv:2:4: a quote within a field without quotes; expected the whole field in quotes, and \"\" "
          "for a "
          "quote in it");
    CHECK(error_of("a,b\n\n\"1\" ,2\n") ==
          "t.csv:3:4: text behind a closing quote; expected a comma or the line's end, and \"\" for a quote "
          "in a "
          "field");
    CHECK(error_of("a,b\n1,\"x\ny") ==
          "t.csv:3:2: the file ends within the quoted field that begins at 2:3; expected a closing quote");
    CHECK(error_of("a,b\n1\n") == "t.csv:2: the line has 1 field; expected 2, as many as the header");
    CHECK(error_of("a,b\n1,2,3\n") ==
          "t.csv:2:5: the line has more than 2 fields; expected as many as the header");
    CHECK(error_of("a,b\n1,2\r3\n") ==
          "t.csv:2:5: a carriage return without a line feed; expected LF or CR LF at a line's end");
    CHECK(error_of(std::string("a\nx\0y\n", 6)) == "t.csv:2:2: a NUL byte; expected text");
    CHECK(error_of("a,b\n1,\xff\n") == "t.csv:2: b is not UTF-8; expected UTF-8");
    CHECK(error_of("a,b,a\n") == "t.csv:1: column a is given twice; expected each column once");
    CHECK(error_of("a,,\n") == "t.csv:1: column \"\" is given twice; expected each column once");
  }

  TEST_CASE("csv: a frame of zstd with a large window is told from a damaged one") {
    const std::string magic("\x28\xb5\x2f\xfd", 4);
    const std::string window_of_2_gib("\x00\xa8", 2);
    CHECK(error_of(magic + window_of_2_gib + std::string(8, 'x')).find("a window of more than 128 MiB") !=
          std::string::npos);
    CHECK(error_of(magic + "\x04").find("damaged or truncated") != std::string::npos);
  }

  TEST_CASE("csv: lines are counted within quoted fields, and a fault names its record's first line") {
    CHECK(error_of("a,b\n\"x\n\n\",1\n2\n").starts_with("t.csv:5: the line has 1 field"));
    CHECK(error_of("a,b\n\"x\n\n\"\n").starts_with("t.csv:2: the line has 1 field"));
  }

  TEST_CASE("csv: records and headers are bounded") {
    CHECK(
        error_of("a\n\"" + std::string(CsvFile::record_bytes_max + 1, 'x')).find("the record is too long") !=
        std::string::npos);
    CHECK(error_of(std::string(CsvFile::columns_max, ',')).find("more than 10000 fields") !=
          std::string::npos);
  }
}

}  // namespace csv_file_test
