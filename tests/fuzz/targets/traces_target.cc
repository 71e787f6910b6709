// Parses the lines of a trace. An accepted request is written to a line that reads as the same request.
#include "deploy/data/request_trace.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

using namespace deploy;

void check_request(const TracedRequest& request) {
  std::string line;
  append_request(line, request);
  const LinePosition place{"again", 1};
  TracedRequest again;
  TraceLines(place).read(line, again);
  TROUPE_CHECK(again == request, "a request changes on its way");
}

void run(Input input) {
  LinePosition place{"t.jsonl", 1};
  TraceLines lines(place);
  TracedRequest request;
  try {
    const std::vector<std::string_view> texts = split(text_of(input), '\n');
    lines.read_header(texts[0]);
    for (place.line = 2; place.line <= texts.size(); ++place.line) {
      lines.read(texts[place.line - 1], request);
      check_request(request);
    }
  } catch (const ImportError& error) {
    const std::string_view words = error.what();
    TROUPE_CHECK(words.starts_with("t.jsonl:") && words.find("; expected ") != words.npos, "no place");
    check_words(words, 1'024);
  }
}

std::vector<std::string> seeds() {
  const std::string header = R"({"format":"troupe-trace","version":1,"source":"a test"})";
  return {header + "\n" +
              R"({"at_us":0,"tenant":"t","user":"u1","profile":2,"events":["i1","i2"],)"
              R"("candidates":["i3","i4"],"truth":"i3"})" +
              "\n" + R"({"at_us":250000,"user":"u2","profile":0,"candidates":["i\u00e9\ud83d\ude00"]})",
          header + "\n" +
              R"({"at_us":0,"user":"u1","profile":0,"kind":"generate","top_k":5,"width":20,"truth":"i9"})",
          header, R"({ "source":"\"\\\/\b\f\n\r\t", "version":2 })"};
}

}  // namespace

const Target traces_target{"traces", run, seeds};

}  // namespace troupe::fuzz
