#include "deploy/data/dataset.h"

#include <doctest/doctest.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>
#include <iterator>
#include <random>

#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

struct Folder : TestFolder {
  void write_gzip(const std::string& name, const std::string& text) const {
    gzFile file = gzopen((path() / name).c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
  }
};

kernels::Vocabulary vocabulary(const Folder& folder) {
  folder.write("vocab.json", R"({"<a_1>":1,"<b_2>":2,"<item_0>":3,"<item_1>":4})");
  return kernels::read_vocabulary(folder.path(), 10);
}

std::string error_of(const Folder& folder) {
  try {
    read_items(folder.path(), vocabulary(folder));
  } catch (const ImportError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("dataset") {
  TEST_CASE("dataset: tables with semantic IDs become tokens") {
    Folder f;
    f.write_gzip("items.tsv.gz", "item_id\tsid\ttitle\n0\t1,2\tA tent\n1\t1,2\tA stove\n");
    f.write_gzip("sequences.tsv.gz", "user_id\tn_train\tn_valid\tn_test\titems\n7\t1\t0\t1\t0 1\n");
    const auto items = read_items(f.path(), vocabulary(f));
    const auto users = read_users(f.path(), HistoryPart::all);
    REQUIRE(items.size() == 2);
    CHECK(items[1].tokens == std::vector<Token>{1, 2});
    CHECK(items[1].identifier == 4);
    CHECK(items[1].title == "A stove");
    CHECK(read_titles(f.path()).at("0") == "A tent");
    REQUIRE(users.size() == 1);
    CHECK(users[0].history == std::vector<std::string>{"0", "1"});
    CHECK(read_users(f.path(), HistoryPart::train)[0].history.size() == 1);
  }

  TEST_CASE("dataset: ratings become histories in order of time") {
    Folder f;
    f.write("items.tsv", "item_id\ttitle\n0\tx\n1\ty\n");
    f.write("ratings.tsv", "user_id\titem_id\trating\ttimestamp\nu\t1\t5\t20\nu\t0\t3\t10\n");
    const auto items = read_items(f.path(), vocabulary(f));
    const auto users = read_users(f.path(), HistoryPart::all);
    CHECK(items[0].tokens == std::vector<Token>{3});
    CHECK(users[0].history == std::vector<std::string>{"0", "1"});
  }

  TEST_CASE("dataset: events have the model's features, from ratings or fields of their names") {
    Folder f;
    f.write("ratings.tsv", "user_id\titem_id\trating\ttimestamp\nu\t1\t5\t20\nu\t0\t3\t10\n");
    RowReading wanted, unknown;
    wanted.limits.event_features = {"actions", "timestamps"};
    unknown.limits.event_features = {"dwell"};
    CHECK(read_user_rows(f.path(), HistoryPart::all, wanted).rows[0].features ==
          std::vector<Feature>{{"actions", {3, 5}}, {"timestamps", {10, 20}}});
    CHECK_THROWS_WITH_AS(
        read_user_rows(f.path(), HistoryPart::all, unknown),
        doctest::Contains("has no dwell of events, which the model needs; expected users.jsonl"),
        ImportError);
    f.write("users.jsonl", R"({"id":"u","history":["i"],"dwell":[7]})");
    CHECK(read_user_rows(f.path(), HistoryPart::all, unknown).rows[0].features ==
          std::vector<Feature>{{"dwell", {7}}});
  }

  TEST_CASE("dataset: titles are the items' titles, or ASINs in a catalog without titles") {
    Folder f;
    f.write("items.tsv", "item_id\tasin\ttitle\n0\tB01\tA tent\n");
    CHECK(read_items(f.path(), vocabulary(f))[0].title == "A tent");
    f.write("items.tsv", "item_id\tasin\n0\tB01\n");
    CHECK(read_items(f.path(), vocabulary(f))[0].title == "B01");
    f.write("items.tsv", "item_id\n0\n");
    CHECK(read_items(f.path(), vocabulary(f))[0].title == "");
  }

  TEST_CASE("dataset: a catalog without semantic IDs is refused for a model that has them") {
    Folder f;
    f.write("items.tsv", "item_id\ttitle\n0\tx\n");
    f.write("vocab.json", R"({"<a_0>":1,"<item_0>":3})");  // item 0 of another catalog
    const kernels::Vocabulary other = kernels::read_vocabulary(f.path(), 10);
    CHECK_THROWS_WITH_AS(read_items(f.path(), other),
                         doctest::Contains("items.tsv:1: there is no column sid"), ImportError);
  }

  TEST_CASE("dataset: JSON lines hold token names or ids") {
    Folder f;
    f.write("items.jsonl", R"({"id":"i","title":"T","tokens":["<a_1>",2],"identifier":"<item_0>"})");
    f.write("users.jsonl", R"({"id":"u","history":["i","i"]})");
    const auto items = read_items(f.path(), vocabulary(f));
    const auto users = read_users(f.path(), HistoryPart::all);
    CHECK(items[0].tokens == std::vector<Token>{1, 2});
    CHECK(users[0].history.size() == 2);
  }

  TEST_CASE("dataset: an identifier may be absent where the model reads none") {
    Folder f;
    f.write("items.jsonl", R"({"id":"i","tokens":[2]})");
    const kernels::Vocabulary words = vocabulary(f);
    PromptForm reads, none;
    reads.discriminant = {1};
    none.score = {3};
    const auto read = [&](const PromptForm& form) {
      return read_item_rows(f.path(), {.text = {&words, nullptr, &form}}).rows[0].identifier;
    };
    CHECK_THROWS_WITH_AS(
        read(reads), doctest::Contains("items.jsonl:1: identifier: the body has no identifier"), ImportError);
    CHECK(read(none) == no_identifier);
    f.write("items.jsonl", R"({"id":"i","tokens":[2],"identifier":4})");
    CHECK(read(none) == 4);
    f.write("items.jsonl", R"({"id":"i","tokens":[2],"identifier":"<none>"})");
    CHECK_THROWS_AS(read(none), ImportError);
  }

  TEST_CASE("dataset: an error names file and line") {
    Folder f;
    f.write("items.tsv", "item_id\tsid\n0\t1,2\n1\t9,2\n");
    CHECK(error_of(f).find("items.tsv:3: sid: \"<a_9>\" is not in the model's vocabulary") !=
          std::string::npos);
    f.write("items.tsv", "item_id\tsid\n0\t1,x\n");
    CHECK(error_of(f).find("items.tsv:2: sid is x; expected a whole number from 0 to 1048576") !=
          std::string::npos);
    f.write("items.tsv", "item_id\tsid\n0\n");
    CHECK(error_of(f).find("1 fields; expected 2") != std::string::npos);
    f.write("items.tsv", "");
    CHECK(error_of(f).find("empty") != std::string::npos);
    f.write("items.tsv", std::string("item_id\tsid\n0\0x\t1,2\n", 21));
    CHECK(error_of(f).find("items.tsv:2: the line has a NUL byte") != std::string::npos);
    f.write("items.jsonl", "{\"id\":5}\n");
    CHECK(error_of(f).find("items.jsonl:1") != std::string::npos);
  }

  TEST_CASE("dataset: a token is a name or a whole number, nothing similar") {
    Folder f;
    for (const char* bad :
         {"1.5", "true", "null", "[1]", "2147483648", "18446744073709551615", "\"<x>\"", "\"\\u0000\""}) {
      CAPTURE(bad);
      f.write("items.jsonl", std::string(R"({"id":"i","tokens":[)") + bad + R"(],"identifier":1})");
      CHECK(error_of(f).starts_with("items.jsonl:1: tokens[0]"));
      CHECK(error_of(f).find("; expected ") != std::string::npos);
    }
    for (const char* bad : {"7", "\"<a_1>\"", "null"}) {
      f.write("items.jsonl", std::string(R"({"id":"i","tokens":)") + bad + R"(,"identifier":1})");
      CHECK(error_of(f).starts_with("items.jsonl:1: "));
    }
  }

  TEST_CASE("dataset: a folder without a catalog and a damaged gzip file are errors") {
    Folder f;
    CHECK(error_of(f).find("no catalog") != std::string::npos);
    f.write_gzip("items.tsv.gz", std::string(100'000, 'a'));
    std::filesystem::resize_file(f.path() / "items.tsv.gz", 60);
    CHECK(error_of(f).find("items.tsv.gz") != std::string::npos);
  }

  TEST_CASE("dataset: a gzip file is read whole or refused, whatever member is damaged") {
    const Folder f;
    const auto member = [&](const std::string& text) {
      f.write_gzip("member", text);
      std::ifstream file(f.path() / "member", std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(file), {});
    };
    const std::string first = member("item_id\n0\n"), second = member("1\n");
    const auto items_of = [&](const std::string& bytes) {
      f.write("items.tsv.gz", bytes);
      const std::string error = error_of(f);
      return error.empty() ? std::to_string(read_items(f.path(), vocabulary(f)).size()) : error;
    };
    const std::string damaged =
        ": the compressed data is damaged or truncated; expected a whole text, gzip or zstd file";
    CHECK(items_of(first) == "1");
    CHECK(items_of(first + second) == "2");
    CHECK(items_of(first + second + std::string(1'000, '\0')) == "2");  // the end of a tape's block
    std::string bad = second;
    bad[0] = '\0';
    CHECK(items_of(first + bad) == "items.tsv.gz:3" + damaged);
    bad = second;
    bad[bad.size() - 8] = static_cast<char>(bad[bad.size() - 8] ^ 1);  // its checksum
    CHECK(items_of(first + bad).ends_with(damaged));
    CHECK(items_of(first + "rest").ends_with(damaged));
    CHECK(items_of(first + second.substr(0, 5)).ends_with(damaged));
    CHECK(items_of(first + std::string(3, '\0') + second).ends_with(damaged));
    for (std::size_t end = 2; end < first.size(); ++end)
      CHECK(items_of(first.substr(0, end)).ends_with(damaged));
    std::string large = "item_id\n";
    for (int i = 0; i < 40'000; ++i) large += "1\n\n\r\n";
    large += "0";
    CHECK(items_of(member(large)) == "40001");
    CHECK_THROWS_WITH_AS(read_evaluation(f.path()), doctest::Contains("the file cannot be read"),
                         ImportError);
  }

  TEST_CASE("dataset: a file may be zstd, with several frames; damage is never taken for the end") {
    const Folder f;
    const auto frame = [](const std::string& text) {
      std::string out(ZSTD_compressBound(text.size()), '\0');
      out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
      return out;
    };
    const auto items_of = [&](const std::string& bytes) {
      f.write("items.tsv.gz", bytes);  // its name does not matter
      try {
        return std::to_string(read_titles(f.path()).size());
      } catch (const ImportError& error) {
        return std::string(error.what());
      }
    };
    const std::string first = frame("item_id\n0\n"), second = frame("1\n2\n"),
                      skipped("\x52\x2a\x4d\x18\x03\0\0\0xyz", 11),
                      damaged =
                          ": the compressed data is damaged or truncated; expected a whole text, gzip or "
                          "zstd file";
    CHECK(items_of(first) == "1");
    CHECK(items_of(first + second) == "3");
    CHECK(items_of(skipped + first + skipped + second) == "3");
    CHECK(items_of(first + "rest").ends_with(damaged));
    CHECK(items_of(first + std::string(3, '\0')).ends_with(damaged));
    for (std::size_t end = 5; end < first.size(); ++end)
      CHECK_MESSAGE(items_of(first.substr(0, end)).ends_with(damaged), end);
    std::string large = "item_id\n";
    for (int i = 0; i < 300'000; ++i) large += std::to_string(i) + "\n";
    CHECK(items_of(frame(large)) == "300000");
    std::string zeros = "item_id\n" + std::string(3 << 20, '0') + "\n";  // few bytes make many parts
    CHECK(items_of(frame(zeros)) == "1");
  }

  TEST_CASE("dataset: lines end with LF or CR LF, blank ones are no rows, and a byte order mark is refused") {
    const Folder f;
    const std::string row = R"({"id":"u","history":["a"]})";
    const auto users_of = [&](const std::string& text) {
      f.write("users.jsonl", text);
      try {
        return std::to_string(read_user_rows(f.path(), HistoryPart::all, {}).rows.size());
      } catch (const ImportError& error) {
        return std::string(error.what());
      }
    };
    CHECK(users_of(row + "\r\n\r\n \t\n" + row) == "2");
    CHECK(users_of("") == "0");
    CHECK(users_of("\xef\xbb\xbf" + row) ==
          "users.jsonl:1: the file begins with a byte order mark; expected UTF-8 without one");
    CHECK(users_of("\n\xef\xbb\xbf" + row).starts_with("users.jsonl:2: byte 1: the text begins with"));
    CHECK(users_of(row + row).starts_with("users.jsonl:1: byte 27: found '{'"));
    CHECK(users_of(row + "\n{") == "users.jsonl:2: byte 2: the text ends too early; expected a JSON object");
    CHECK(users_of(R"({"id":"u","history":["a"],"histroy":[]})")
              .starts_with("users.jsonl:1: histroy: there is no such field; expected one of user, history"));
    CHECK(users_of(R"({"id":"u"})").starts_with("users.jsonl:1: history or tokens: the body has no"));
    CHECK(users_of(R"({"history":[]})") == "users.jsonl:1: user: the id is empty; expected an id");
    CHECK(users_of(R"({"id":7,"history":[]})") == "users.jsonl:1: id is 7; expected a string");
    CHECK(users_of("7") == "users.jsonl:1: the line is 7; expected an object");
    f.write("items.tsv", "item_id\titem_id\n0\t0\n");
    CHECK(error_of(f) == "items.tsv:1: column item_id is given twice; expected each column once");
    f.write("items.tsv", "item_id\ttitle\n0\t\xff\n");
    CHECK(error_of(f) == "items.tsv:2: title is not UTF-8; expected UTF-8");
    f.write("items.tsv", "item_id\ttitle\n\tA tent\n");
    CHECK(error_of(f) == "items.tsv:2: item: the id is empty; expected an id");
  }

  TEST_CASE("dataset: an explicit identifier of -1 is refused as over HTTP") {
    const Folder f;
    f.write("items.jsonl", R"({"id":"a","tokens":[1],"identifier":-1})");
    try {
      read_item_rows(f.path(), {});
      FAIL("the line was read");
    } catch (const ImportError& error) {
      CHECK(
          std::string(error.what()) ==
          "items.jsonl:1: identifier is -1; expected a whole number from 0 to 2147483647, or no such member");
    }
  }

  TEST_CASE("dataset: times of a model that reads none are refused as over HTTP, but in a table skipped") {
    const Folder f;
    f.write("users.jsonl", R"({"id":"u","history":["1"],"timestamps":[5]})");
    try {
      read_user_rows(f.path(), HistoryPart::all, {});
      FAIL("the line was read");
    } catch (const ImportError& error) {
      CHECK(std::string(error.what()) ==
            "users.jsonl:1: timestamps: the model takes no feature \"timestamps\"; expected none, as the "
            "model takes none");
    }
    CHECK(read_users(f.path(), HistoryPart::all).size() == 1);  // without a model all features are known
    std::filesystem::remove(f.path() / "users.jsonl");
    f.write("ratings.tsv", "user_id\titem_id\trating\ttimestamp\nu\t1\t5\t7\n");
    CHECK(read_user_rows(f.path(), HistoryPart::all, {}).rows.at(0).features.empty());
  }

  TEST_CASE("dataset: numbers of histories are not bent, in lines or in tables") {
    const Folder f;
    RowReading timed;
    timed.limits.event_features = {"timestamps"};
    const auto error_with = [&](const std::string& number, bool table) {
      if (table)
        f.write("ratings.tsv", "user_id\titem_id\trating\ttimestamp\nu\t1\t5\t" + number + "\n");
      else
        f.write("users.jsonl", R"({"id":"u","history":["1"],"timestamps":[)" + number + "]}");
      try {
        const auto rows = read_user_rows(f.path(), HistoryPart::all, timed).rows;
        CHECK(rows.at(0).features.at(0).values.size() == 1);
      } catch (const ImportError& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    const std::string expected = "; expected seconds since 1970, a whole number from 0 to 1099511627776";
    for (const bool table : {true, false}) {
      std::filesystem::remove(f.path() / "users.jsonl");
      const std::string where = table ? "ratings.tsv:2: timestamp is " : "users.jsonl:1: timestamps[0] is ";
      CHECK(error_with("1099511627776", table) == "");
      for (const char* bad : {"881250949.9", "1e3", "1e300", "-1", "18446744073709551615"})
        CHECK(error_with(bad, table) == where + bad + expected);
      CHECK(error_with("1588687728923", table) ==
            where + "1588687728923, which looks like milliseconds" + expected);
    }
  }

  TEST_CASE("evaluation rows: are the same from a table and from lines") {
    Folder f;
    f.write("e.tsv", "user_id\thistory\tcandidates\ttrue_index\nu\ta b\tc d e\t2\nv\t\tc\t0\n");
    f.write("e.jsonl", R"({"user":"u","history":["a","b"],"candidates":["c","d","e"],"true_item":"e"})"
                       "\n"
                       R"({"user":"v","candidates":["c"],"true_item":"c"})"
                       "\n");
    for (const char* name : {"e.tsv", "e.jsonl"}) {
      CAPTURE(name);
      const auto rows = read_evaluation(f.path() / name);
      REQUIRE(rows.size() == 2);
      CHECK(rows[0].user == "u");
      CHECK(rows[0].history == std::vector<std::string>{"a", "b"});
      CHECK(rows[0].candidates == std::vector<std::string>{"c", "d", "e"});
      CHECK(rows[0].true_index == 2);
      CHECK(rows[1].user == "v");
      CHECK(rows[1].history.empty());
      CHECK(rows[1].true_index == 0);
    }
    f.write("users.jsonl", "{\"id\":\"v\",\"history\":[\"x\",\"y\"]}\n{\"id\":\"u\",\"history\":[\"z\"]}\n");
    const auto filled = read_evaluation(f.path() / "e.jsonl", f.path());
    CHECK(filled[0].history == std::vector<std::string>{"a", "b"});  // has its own history
    CHECK(filled[1].history == std::vector<std::string>{"x", "y"});
    f.write("e.tsv", "user_id\thistory\tcandidates\ttrue_index\nu\t\tc d\t2\n");
    CHECK_THROWS_AS(read_evaluation(f.path() / "e.tsv"), ImportError);
    f.write("e.jsonl", R"({"user":"u","candidates":["c"],"true_item":"d"})");
    CHECK_THROWS_AS(read_evaluation(f.path() / "e.jsonl"), ImportError);
  }

  TEST_CASE("evaluation: models whose tokens are items have features of events, a time and a scenario") {
    Folder f;
    f.write("e.tsv",
            "user_id\titems\tactions\ttimestamps\trequest_timestamp\tscenario\tcandidates\ttrue_index\n"
            "u\ta b\t4 5\t10 20\t30\t1\tc d\t1\nv\t\t\t\t0\t0\tc\t0\n");
    f.write("e.jsonl",
            R"({"user":"u","history":["a","b"],"timestamps":[10,20],"actions":[4,5],"request_timestamp":30,)"
            R"("scenario":1,"candidates":["c","d"],"true_item":"d"})");
    for (const char* name : {"e.tsv", "e.jsonl"}) {
      CAPTURE(name);
      const EvaluationRow row = read_evaluation(f.path() / name).at(0);
      CHECK(row.history == std::vector<std::string>{"a", "b"});
      CHECK(row.features == std::vector<Feature>{{"timestamps", {10, 20}}, {"actions", {4, 5}}});
      CHECK(row.request_timestamp == 30);
      CHECK(row.scenario == 1);
    }
    CHECK(read_evaluation(f.path() / "e.tsv").at(1).features[0].values.empty());
    f.write("e.jsonl",
            R"({"history":["a","b"],"features":[{"name":"actions","values":[4,5]}],"timestamps":[10,20],)"
            R"("candidates":["c"],"true_item":"c"})"
            "\n"
            R"({"user":"v","history":[],"candidates":["c"],"true_item":"c"})");
    f.write("users.jsonl", R"({"id":"v","history":["x"]})");
    const auto lines = read_evaluation(f.path() / "e.jsonl", f.path());
    CHECK(lines.at(0).user == "");  // a visitor
    CHECK(lines.at(0).features == std::vector<Feature>{{"timestamps", {10, 20}}, {"actions", {4, 5}}});
    CHECK(lines.at(1).has_history);
    CHECK(lines.at(1).history.empty());  // its own, not the folder's
    f.write("e.jsonl", R"({"candidates":["c"],"true_item":"c"})");
    CHECK_THROWS_WITH_AS(read_evaluation(f.path() / "e.jsonl"), doctest::Contains("the line has no user"),
                         ImportError);
    f.write("e.tsv", "user_id\thistory\tactions\tcandidates\ttrue_index\nu\ta b\t4\tc\t0\n");
    CHECK_THROWS_WITH_AS(read_evaluation(f.path() / "e.tsv"),
                         doctest::Contains("actions has 1 numbers; expected 2, one for each event"),
                         ImportError);
  }

  TEST_CASE("dataset: random damage to a catalog never crashes the importer") {
    std::mt19937 random(20);
    const std::string good = "item_id\tsid\ttitle\n0\t1,2\tA tent\n1\t1,2\tA stove\n";
    Folder f;
    for (int round = 0; round < 300; ++round) {
      std::string bad = good;
      for (int i = 0; i < 3; ++i) bad[random() % bad.size()] = static_cast<char>(random());
      f.write("items.tsv", bad.substr(0, random() % (bad.size() + 1)));
      CAPTURE(round);
      CHECK_NOTHROW(error_of(f));  // either a data set or an ImportError
    }
  }
}
