// Parses CSV, the words of --columns, and times of tables. Records that were read are written with quotes
// around each field and read again as the same ones; times that were read are shown and read again.
#include "deploy/data/csv_file.h"
#include "deploy/data/table_columns.h"
#include "deploy/data/time_text.h"
#include "runtime/config/config.h"
#include "runtime/wire/json_text.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

using namespace deploy;
using Records = std::vector<std::vector<std::string>>;

constexpr std::size_t records_max = 1'000;  // a few compressed bytes can be very many

Records records_of(std::string bytes) {
  CsvFile csv("t.csv", ByteSource::of_bytes(std::move(bytes)));
  Records records{csv.header()};
  for (std::vector<std::string> fields; records.size() < records_max && csv.next(fields);)
    records.push_back(fields);
  return records;
}

std::string written(const Records& records) {
  std::string text;
  for (const std::vector<std::string>& record : records) {
    for (const std::string& field : record) {
      text += text.empty() || text.back() == '\n' ? "\"" : ",\"";
      for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
      text += "\"";
    }
    text += "\n";
  }
  return text;
}

void run_csv(Input input) {
  Records records;
  try {
    records = records_of(std::string(text_of(input)));
  } catch (const ImportError& error) {
    const std::string_view words = error.what();
    TROUPE_CHECK(words.starts_with("t.csv:") && words.find("; expected ") != words.npos, "no place");
    return check_words(words, 1'024);
  }
  for (const std::vector<std::string>& record : records) {
    TROUPE_CHECK(record.size() == records[0].size(), "a record with fields that the header does not name");
    for (const std::string& field : record)
      TROUPE_CHECK(is_utf8(field) && field.find('\0') == field.npos, "a field that is no text");
  }
  TROUPE_CHECK(records_of(written(records)) == records, "records change on their way");
}

void run_columns(Input input) {
  try {
    const TableColumns columns = parse_columns(text_of(input));
    TROUPE_CHECK(columns.find(columns.content == TableContent::items ? "item" : "user"),
                 "rows without an id");
  } catch (const ConfigError& error) {
    check_words(printable(error.what()), 1'024);
  }
}

void run_time(Input input) {
  for (const TimeForm form : {TimeForm::whole_seconds, TimeForm::seconds, TimeForm::milliseconds,
                              TimeForm::nanoseconds, TimeForm::iso}) {
    const auto time = read_time(text_of(input), form, "timestamp");
    if (const auto* read = std::get_if<WrittenTime>(&time)) {
      const std::int64_t seconds = read->seconds;
      TROUPE_CHECK(seconds >= 0, "a time before 1970");
      TROUPE_CHECK(read->nanoseconds < 1'000'000'000, "a fraction of a second or more");
      if (seconds >= 253'402'300'800) continue;  // after 9999
      const auto again = read_time(iso_text(seconds), TimeForm::iso, "again");
      TROUPE_CHECK(std::get<WrittenTime>(again) == (WrittenTime{seconds, 0}), "a time changes on its way");
    }
  }
}

void run_table(Input input) {
  const std::uint8_t choice = take_choice(input) % 3;
  if (choice == 0) return run_csv(input);
  return choice == 1 ? run_columns(input) : run_time(input);
}

std::vector<std::string> table_seeds() {
  const std::string csv(1, '\0'), columns(1, '\1'), time(1, '\2');
  return {csv + "user,item,ts\r\nu,\"a, \"\"b\"\"\",1\r\n\r\nv,\"two\nlines\",\"\"",
          csv + "\xef\xbb\xbf\"a\",\xc3\xa9\n1,2\n",
          csv + std::string("\x28\xb5\x2f\xfd\x04\x00\x21\x00\x00", 9) + "a\n1\n",
          columns + "user=reviewer,item=asin:x,timestamp=ts:ms,action=stars",
          columns + "item=id,tokens=codes:codes,title=t",
          time + "2018-05-03T13:22:08.5+02:00",
          time + "1588687728923.5"};
}

}  // namespace

const Target tables_target{"tables", run_table, table_seeds};

}  // namespace troupe::fuzz
