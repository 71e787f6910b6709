// Compares the bytes and the JSON of every kind of message with recorded ones: two processes of
// different versions understand each other only if neither changes.
#include <doctest/doctest.h>

#include <boost/pfr.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <typeindex>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/wire/codec.h"
#include "runtime/wire/json.h"

using namespace troupe;

namespace {

// Gives every member a value that is not its default, and every list two elements. A value depends
// on its member's type and on the member's number among those of that type in its struct.
struct Sampler {
  static void fill(bool& value, unsigned) { value = !value; }
  static void fill(std::string& text, unsigned n) { text = "téxt " + std::to_string(n); }
  static void fill(BlockName& name, unsigned n) {
    for (auto& byte : name.bytes) byte = static_cast<std::uint8_t>(n++);
  }
  static void fill(Tokens& tokens, unsigned n) {
    std::vector<Token> filled;
    fill(filled, n);
    tokens = std::move(filled);
  }
  static void fill(VisibleSegments& sees, unsigned n) {
    sees.add({0, 1});
    sees.add({2, 2 + n});
  }
  static void fill(SegmentKind& kind, unsigned n) { other(kind, n, 6); }
  static void fill(Readout::What& what, unsigned n) { other(what, n, 3); }
  static void fill(Search::Normalisation& normalised, unsigned n) { other(normalised, n, 2); }
  static void fill(Role& role, unsigned n) { other(role, n, 6); }
  static void fill(Priority& priority, unsigned n) { other(priority, n, 2); }
  static void fill(Grant& grant, unsigned n) { other(grant, n, 3); }
  static void fill(Outcome& outcome, unsigned n) { other(outcome, n, 4); }
  static void fill(Freshness& freshness, unsigned n) { other(freshness, n, 4); }
  static void fill(UnknownCandidates& unknown, unsigned n) { other(unknown, n, 2); }
  static void fill(UnknownUser& unknown, unsigned n) { other(unknown, n, 3); }
  static void fill(Normalised& normalised, unsigned n) { other(normalised, n, 3); }
  static void fill(Arrangement& arrangement, unsigned n) { other(arrangement, n, 7); }
  static void fill(RefusalKind& kind, unsigned n) { other(kind, n, refusal_kinds); }
  template <class T>
  static void fill(std::optional<T>& value, unsigned n) {
    fill(value.emplace(), n);
  }
  template <class T>
  static void fill(std::vector<T>& values, unsigned n) {
    values.resize(2);
    for (T& value : values) fill(value, ++n);
  }
  template <class T>
  static void fill(T& value, unsigned n) {
    if constexpr (std::is_floating_point_v<T>) {
      value += static_cast<T>(n) + T{0.5};
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(value + static_cast<T>(n));
    } else {
      std::map<std::type_index, unsigned> seen;
      boost::pfr::for_each_field(
          value, [&](auto& member) { fill(member, n + 10 * ++seen[std::type_index(typeid(member))]); });
      CHECK_FALSE(value == T{});
    }
  }

 private:
  template <class E>
  static void other(E& value, unsigned n, unsigned count) {
    value = static_cast<E>((static_cast<unsigned>(value) + 1 + n % (count - 1)) % count);
  }
};

std::string hex(const Bytes& bytes) {
  std::string text;
  char digits[3];
  for (const std::uint8_t byte : bytes) {
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

Bytes bytes_of(const std::string& text) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

// The recorded file: a line "KIND FORM CONTENT" for each sample.
class Record {
 public:
  Record() {
    std::ifstream in(std::string(TROUPE_ROOT_DIR) + "/runtime/testing/wire_samples.txt");
    for (std::string kind, form, content; in >> kind >> form && std::getline(in >> std::ws, content);)
      contents_[kind + " " + form] = content;
  }
  // Compares, and returns the recorded content.
  std::string check(const std::string& sample, const std::string& content) {
    const std::string recorded = std::exchange(contents_[sample], "");
    if (recorded != content)
      FAIL_CHECK("runtime/testing/wire_samples.txt; expected the line\n" << sample << " " << content);
    return recorded;
  }
  void check_all_used() const {
    for (const auto& [sample, content] : contents_) CHECK_MESSAGE(content.empty(), sample, " is no sample");
  }

 private:
  std::map<std::string, std::string> contents_;
};

void check_bytes(Record& record, const std::string& sample, const Message& message) {
  const Envelope sent{{7, Role::cache_meta}, message};
  const std::string recorded = record.check(sample, hex(encode(sent)));
  const auto decoded = decode(bytes_of(recorded));
  CHECK_MESSAGE((recorded.empty() || decoded == std::variant<Envelope, std::string>(sent)), sample);
}

template <class M>
void check_kind(Record& record, const std::string& kind) {
  M full;
  Sampler::fill(full, 0);
  check_bytes(record, kind + " full", full);
  check_bytes(record, kind + " default", M{});
  if constexpr (requires { to_json(full); }) {
    record.check(kind + " json", to_json(full));
    record.check(kind + " default_json", to_json(M{}));
  }
}

template <class M>
void check_body(Record& record, const std::string& kind, std::string_view body) {
  M message;
  const auto refusal = from_json(body, message);
  REQUIRE_MESSAGE(!refusal, refusal->what);
  check_bytes(record, kind + " body", message);
}

}  // namespace

TEST_CASE("wire samples: every kind of message has its recorded bytes and JSON") {
  Record record;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (check_kind<std::variant_alternative_t<I, AnyMessage>>(record, message_names[I]), ...);
  }
  (std::make_index_sequence<std::variant_size_v<AnyMessage>>());

  StatusReply status;
  Sampler::fill(status, 0);
  record.check("StatusReply json", to_json(std::vector{status, StatusReply{}}));
  for (const auto& [name, schema] : body_schemas()) record.check(name + " json_schema", schema);

  check_body<RankRequest>(
      record, "RankRequest",
      R"({"user":"u","candidates":["a","b"],"top_k":3,"policy":"bat","budget_us":4,"request_timestamp":5,
          "approximate":0.25,"scenario":6,"task":"t","features":"wait","unknown":"skip",
          "history":["x","y"],"arrangement":"item_first"})");
  check_body<ScoreRequest>(
      record, "ScoreRequest",
      R"({"query":[1,2],"items":[{"tokens":[3,4]},{"tokens":[5]}],"label_tokens":[6,7],"apply_softmax":true,
          "budget_us":8})");
  check_body<GenerateRequest>(
      record, "GenerateRequest",
      R"({"user":"u","top_k":1,"width":2,"exclude_seen":true,"allow":["a","b"],"deny":["c","d"],
          "among_allowed":true,"budget_us":3,"logprobs":true,"features":"exact","request_timestamp":4})");
  check_body<PutUser>(record, "PutUser",
                      R"({"user":"u","history":["a","b"],"tokens":[1,2],"event_ids":["e","f"],
          "features":[{"name":"times","values":[3,4]},{"name":"acts","values":[5,6]}]})");
  check_body<PutItem>(record, "PutItem", R"({"item":"i","title":"t","tokens":[1,2],"identifier":3})");
  check_body<Reload>(record, "Reload", R"({"model":"m","catalog":"c","share":0.5})");
  check_body<ReplayRequest>(record, "ReplayRequest", R"({"request_id":"r"})");
  record.check_all_used();
}
