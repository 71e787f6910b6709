#include "deploy/data/request_trace.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <random>

#include "runtime/testing/store_test_folder.h"

namespace troupe::deploy {
namespace request_trace_test {

const std::string header = R"({"format":"troupe-trace","version":1,"source":"a test"})"
                           "\n";

struct Folder : TestFolder {
  std::vector<TracedRequest> read(const std::string& name) const {
    TraceReader reader(path() / name);
    std::vector<TracedRequest> requests;
    for (TracedRequest request; reader.next(request);) requests.push_back(request);
    return requests;
  }
  std::string error_of(const std::string& text) const {
    write("t.jsonl", text);
    try {
      read("t.jsonl");
    } catch (const ImportError& error) {
      return error.what();
    }
    return "";
  }
  // Returns the error of a trace whose first request is `line`.
  std::string error_of_line(const std::string& line) const { return error_of(header + line + "\n"); }
};

// Simulates a full disk: files of this process cannot grow beyond a limit.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes_max) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes_max, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

std::string draw_text(std::mt19937_64& random, bool may_be_empty) {
  static const std::vector<std::string> parts{"a",  "B7",        "-", "\"", "\\", "\n",
                                              "\t", "\x01",      "/", "ü",  "€",  "\U0001f40e",
                                              " ",  "</script>", "é", "{",  "]",  ","};
  std::string text;
  for (std::size_t n = random() % 5 + (may_be_empty ? 0 : 1); n > 0; --n)
    text += parts[random() % parts.size()];
  return text;
}

TracedRequest draw_request(std::mt19937_64& random, Instant at) {
  TracedRequest request;
  request.at = at;
  request.tenant = draw_text(random, true);
  request.user = draw_text(random, false);
  request.profile = random() % (std::uint64_t{1} << 53);
  for (std::size_t n = random() % 4; n > 0; --n) request.events.push_back(draw_text(random, false));
  for (std::size_t n = random() % 6 + 1; n > 0; --n)
    request.candidates.push_back(draw_text(random, true) + "#" + std::to_string(n));
  if (random() % 2 == 0) request.truth = request.candidates[random() % request.candidates.size()];
  request.generates = random() % 3 == 0;
  if (request.generates) {
    request.candidates.clear();
    request.top_k = random() % 3 * 7;
    request.width = random() % 3 * 64;
  }
  return request;
}

TEST_SUITE("request trace") {
  TEST_CASE("request trace: written requests are read back, plain and gzip, with any characters in ids") {
    const std::uint64_t seed = 41;
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Folder folder;
    for (const char* name : {"t.jsonl", "t.jsonl.gz"}) {
      std::vector<TracedRequest> requests;
      Instant at;
      TraceWriter writer(folder.path() / name, "seed \"41\"");
      for (int i = 0; i < 500; ++i) {
        at.us += static_cast<std::int64_t>(random() % 3) * 1'000'000'007;
        requests.push_back(draw_request(random, at));
        writer.write(requests.back());
      }
      writer.close();
      CHECK(folder.read(name) == requests);
      CHECK(TraceReader(folder.path() / name).source() == "seed \"41\"");
    }
    std::ifstream packed(folder.path() / "t.jsonl.gz", std::ios::binary);
    CHECK(packed.get() == 0x1f);
  }

  TEST_CASE("request trace: fields may be in any order with spaces, and optional ones may be missing") {
    Folder folder;
    folder.write("t.jsonl", header +
                                " { \"candidates\" : [ \"b\" ,\"\\u00e9\\ud83d\\udc0e\" ] , \"profile\":0,\t"
                                "\"user\":\"u\",\"at_us\":7 } \n" +
                                R"({"at_us":7,"user":"v","profile":1,"candidates":["x"],"truth":"x"})");
    const auto requests = folder.read("t.jsonl");
    REQUIRE(requests.size() == 2);
    CHECK(requests[0].candidates == std::vector<std::string>{"b", "é\U0001f40e"});
    CHECK(requests[0].tenant.empty());
    CHECK(requests[0].truth.empty());
    CHECK(requests[1].truth == "x");
  }

  TEST_CASE("request trace: an error names file, line, field and expected value") {
    Folder folder;
    const std::string rest = R"("user":"u","profile":1,"candidates":["a","b"]})";
    const std::vector<std::pair<std::string, std::string>> bad{
        {R"({"at_us":-1,)" + rest, "at_us: there is \"-1,"},
        {R"({"at_us":1.5,)" + rest, "at_us: there is \"1.5,"},
        {R"({"at_us":1e3,)" + rest, "expected a whole number of at most 9007199254740992"},
        {R"({"at_us":007,)" + rest, "at_us: there is \"007"},
        {R"({"at_us":"1",)" + rest, "at_us: there is "},
        {R"({"at_us":9007199254740993,)" + rest, "at_us: there is "},
        {R"({"at_us":1,"at_us":1,)" + rest, "at_us is given twice; expected each field once"},
        {R"({"at_us":1,"time":1,)" + rest, "there is a field \"time\"; expected only at_us tenant user"},
        {"{" + rest, "there is no field \"at_us\""},
        {R"({"at_us":1,"profile":1,"candidates":["a"]})", "there is no field \"user\""},
        {R"({"at_us":1,"user":"u","profile":1})", "there is no field \"candidates\""},
        {R"({"at_us":1,"user":"","profile":1,"candidates":["a"]})", "user is empty"},
        {R"({"at_us":1,"user":7,"profile":1,"candidates":["a"]})", "user: there is \"7,"},
        {R"({"at_us":1,"user":"u","profile":1,"candidates":[]})",
         "candidates is empty; expected at least one"},
        {R"({"at_us":1,"user":"u","profile":1,"candidates":["a",5]})", "candidates[1]: there is \"5]}\""},
        {R"({"at_us":1,"user":"u","profile":1,"candidates":["a",]})", "candidates[1]: there is \"]}\""},
        {R"({"at_us":1,"user":"u","profile":1,"candidates":["a" "b"]})", "after candidates[0]"},
        {R"({"at_us":1,"user":"u","profile":1,"candidates":["a","b","a"]})", "candidates[2] is \"a\" again"},
        {R"({"at_us":1,"user":"u","profile":1,"candidates":["a",""]})", "candidates[1] is empty"},
        {R"({"at_us":1,"user":"u","profile":1,"events":[""],"candidates":["a"]})", "events is empty"},
        {R"({"at_us":1,"user":"u","profile":1,"candidates":["a"],"truth":"b"})",
         "truth is \"b\"; expected one of the candidates"},
        {R"({"at_us":1,"user":"u","profile":1,"kind":"score"})",
         "kind is \"score\"; expected \"rank\" or \"generate\""},
        {R"({"at_us":1,"user":"u","profile":1,"kind":"generate","candidates":["a"]})",
         "there are candidates; expected none"},
        {R"({"at_us":1,"user":"u","profile":1,"candidates":["a"],"width":3})", "there is a top_k or a width"},
        {R"({"at_us":1,"user":"u","profile":1,"kind":"generate","top_k":5000})", "at most 4096"},
        {R"({"at_us":1,"user":"u)", "user: the line ends; expected a closing quote"},
        {R"({"at_us":1,"user":"\x",)", "user: there is \"x"},
        {R"({"at_us":1,"user":"\ud800",)", "second half"},
        {R"({"at_us":1,"user":"\u0000",)", "neither \\u0000"},
        {"{\"at_us\":1,\"user\":\"\xff\",", "valid UTF-8"},
        {"{\"at_us\":1,\"user\":\"a\tb\",", "control characters"},
        {R"({"at_us":1,)" + rest + "}", "after the object: there is \"}\"; expected the line's end"},
        {R"([1])", "the line's start"},
        {"", "the line's start: the line ends; expected {"}};
    for (const auto& [line, expected] : bad) {
      const std::string error = folder.error_of_line(line);
      CAPTURE(line);
      CAPTURE(error);
      CHECK(error.starts_with("t.jsonl:2: "));
      CHECK(error.find(expected) != error.npos);
      CHECK(error.find("; expected ") != error.npos);
    }
    const std::string sound = R"({"at_us":5,)" + rest + "\n";
    CHECK(folder.error_of_line(sound + R"({"at_us":4,)" + rest)
              .find("t.jsonl:3: at_us is 4; expected at least 5") == 0);
    CHECK(folder.error_of_line(R"({"at_us":1,"user":")" + std::string(513, 'u') + "\"}").find("512 bytes") !=
          std::string::npos);
  }

  TEST_CASE("trace lines: a tab in a text is refused, also before the closing quote and at the line's end") {
    LinePosition place{"t.jsonl", 1};
    TraceLines lines(place);
    for (const std::string text : {R"({"source":"a)"
                                   "\t\"}",
                                   R"({"source":"a)"
                                   "\t"}) {
      const std::vector<char> exact(text.begin(), text.end());  // without a zero behind it
      CHECK_THROWS_WITH_AS(lines.read_header({exact.data(), exact.size()}),
                           doctest::Contains("expected control characters as"), ImportError);
    }
  }

  TEST_CASE("trace lines: an error is one line, whatever characters a name contains") {
    LinePosition place{"t.jsonl", 1};
    TraceLines lines(place);
    CHECK_THROWS_WITH_AS(lines.read_header(R"({"a\n\u001b[2J":1})"),
                         doctest::Contains("t.jsonl:1: there is a field \"a??[2J\"; expected only format"),
                         ImportError);
  }

  TEST_CASE("request trace: a header of this format and version is required") {
    Folder folder;
    CHECK(folder.error_of("").find("t.jsonl:0: the file is empty; expected a header line") == 0);
    for (const char* bad :
         {R"({"format":"other","version":1,"source":""})", R"({"format":"troupe-trace","version":1})",
          R"({"format":"troupe-trace","version":2,"source":""})",
          R"({"format":"troupe-trace","version":1,"source":"","rate":3})",
          R"({"at_us":1,"user":"u","profile":1,"candidates":["a"]})", "at,user", "\x1f\x8b"}) {
      CAPTURE(bad);
      CHECK(folder.error_of(bad).starts_with("t.jsonl:1: "));
    }
    CHECK_THROWS_AS(TraceReader(folder.path() / "none"), ImportError);
  }

  TEST_CASE("request trace: the example in docs/reference/trace-format.md is a valid trace") {
    std::ifstream page(std::filesystem::path(TROUPE_ROOT_DIR) / "docs" / "reference" / "trace-format.md");
    std::string text;
    for (std::string line; std::getline(page, line);)
      if (line.starts_with("{\"")) text += line + "\n";
    Folder folder;
    CHECK(folder.error_of(text) == "");
    const auto requests = folder.read("t.jsonl");
    REQUIRE(requests.size() == 3);
    CHECK(requests[1].tenant == "b");
  }

  TEST_CASE("request trace: a truncated gzip trace is refused") {
    Folder folder;
    TraceWriter writer(folder.path() / "t.jsonl.gz", "");
    std::mt19937_64 random(3);
    for (int i = 0; i < 2'000; ++i) writer.write(draw_request(random, {i}));
    writer.close();
    std::filesystem::resize_file(folder.path() / "t.jsonl.gz",
                                 std::filesystem::file_size(folder.path() / "t.jsonl.gz") / 2);
    CHECK_THROWS_AS(folder.read("t.jsonl.gz"), ImportError);
  }

  TEST_CASE("trace writer: an unclosed file is removed, and a path that cannot be written is an error") {
    Folder folder;
    { TraceWriter writer(folder.path() / "t.jsonl", ""); }
    CHECK_FALSE(std::filesystem::exists(folder.path() / "t.jsonl"));
    CHECK_THROWS_WITH(TraceWriter(folder.path() / "none" / "t.jsonl", ""),
                      doctest::Contains("cannot be written"));
    if (!std::filesystem::exists("/dev/full")) return;
    TraceWriter writer("/dev/full", "");
    CHECK_THROWS_WITH(writer.close(), doctest::Contains("cannot be written"));
  }

  TEST_CASE("request trace: candidates with colliding hashes are read, and a repeated one is found") {
    Folder folder;
    const std::size_t table = std::hash<std::string_view>()("0") % 4096;
    TracedRequest request{{0}, "", "u", 0, {}, {}, ""};
    for (int i = 0; request.candidates.size() < 1'000; ++i)
      if (const std::string id = std::to_string(i); std::hash<std::string_view>()(id) % 4096 == table)
        request.candidates.push_back(id);
    const auto write = [&] {
      TraceWriter writer(folder.path() / "t.jsonl", "");
      writer.write(request);
      writer.close();
    };
    write();
    CHECK(folder.read("t.jsonl") == std::vector<TracedRequest>{request});
    request.candidates.back() = request.candidates.front();
    write();
    CHECK_THROWS_WITH_AS(folder.read("t.jsonl"), doctest::Contains("candidates[999] is \"0\" again"),
                         ImportError);
  }

  TEST_CASE("trace reader: a request is due at its time divided by the speed, within a century") {
    Folder folder;
    folder.write("t.jsonl", header + R"({"at_us":7000,"user":"u","profile":1,"candidates":["a"]})" + "\n");
    TraceReader reader(folder.path() / "t.jsonl");
    TracedRequest request;
    REQUIRE(reader.next(request));
    CHECK(reader.due(request, 2).us == 3'500);
    CHECK(reader.due(request, 1e-6).us == 7'000'000'000);
    CHECK_THROWS_WITH_AS(reader.due(request, 1e-12),
                         doctest::Contains("t.jsonl:2: at_us is 7000, which is due"), ImportError);
  }

  TEST_CASE("trace writer: a trace cut off by a full disk is removed") {
    Folder folder;
    for (const char* name : {"t.jsonl", "t.jsonl.gz"}) {
      TraceWriter writer(folder.path() / name, "");
      std::mt19937_64 random(5);
      for (int i = 0; i < 20; ++i) writer.write(draw_request(random, {i}));
      {
        const FileSizeLimit limit(100);
        CHECK_THROWS_WITH(writer.close(), doctest::Contains("cannot be written"));
      }
      CHECK_FALSE(std::filesystem::exists(folder.path() / name));
    }
  }
}

}  // namespace request_trace_test
}  // namespace troupe::deploy
