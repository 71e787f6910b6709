#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "runtime/testing/store_test_folder.h"

namespace troupe::message_generator_test {
namespace {

// Generates from one schema, with the annotations of runtime/wire/schema.
class Generated {
 public:
  explicit Generated(const std::string& schema) {
    std::ofstream(folder_.path() / "sample.capnp")
        << "@0xd7cf3e64ed3c1c5b;\n"
           "using Cxx = import \"/capnp/c++.capnp\";\n"
           "using Notes = import \"/runtime/wire/schema/annotations.capnp\";\n"
           "$Cxx.namespace(\"troupe::schema\");\n"
           "struct Envelope { union { first @0 :First; second @1 :First; } }\n"
        << schema;
    const std::string command = "cd '" + folder_.path().string() + "' && " + TROUPE_CAPNP + " compile -o " +
                                TROUPE_MESSAGE_GENERATOR + " -I " + TROUPE_ROOT_DIR + " sample.capnp 2>&1";
    FILE* const pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    for (char part[256]; std::fgets(part, sizeof part, pipe) != nullptr;) errors_ += part;
    is_done_ = pclose(pipe) == 0;
  }

  // Returns the text of a file; "" if the schema was refused.
  std::string file(const char* name) const {
    CHECK_MESSAGE(is_done_, errors_);
    std::ifstream in(folder_.path() / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string structs() const { return file("message_structs.h"); }
  std::string codec() const { return file("message_codec.inc"); }
  std::string errors() const {
    CHECK_FALSE(is_done_);
    return errors_;
  }

 private:
  TestFolder folder_;
  std::string errors_;
  bool is_done_ = false;
};

bool has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("message generator: members have the order of the text, defaults and comments") {
  const std::string structs = Generated(R"(
struct First {
  # Says what
  # it is.
  lateOne @1 :Float64 = -1;   # trailing
  early @0 :UInt32 = .First.mostOnes;
  # A comment that is long enough to need a line of its own above the member, since both are too wide.
  obsoleteText @2 :Text;
  kind @3 :Kind = otherKind;
  const mostOnes :UInt32 = 7;
}
enum Kind { plain @0; otherKind @1; }
)")
                                  .structs();
  has(structs, "enum class Kind : std::uint8_t {\n  plain,\n  other_kind,\n};\n");
  has(structs,
      "// Says what it is.\n"
      "struct First {\n"
      "  static constexpr std::uint32_t most_ones = 7;\n"
      "  double late_one = -1;  // trailing\n"
      "  // A comment that is long enough to need a line of its own above the member, since both are too\n"
      "  // wide.\n"
      "  std::uint32_t early = 7;\n"
      "  Kind kind = Kind::other_kind;\n"
      "  bool operator==(const First&) const = default;\n};\n");
  CHECK(structs.find("enum class Kind") < structs.find("struct First"));
  has(structs, "using AnyMessage = std::variant<\n    First,\n    First>;");
}

TEST_CASE("message generator: annotations choose types, names, defaults and what is omitted") {
  const Generated generated(R"(
struct First $Notes.cppMembers("int more() const;") {
  named @0 :UInt16 $Notes.cppType("Name") $Notes.cppDefault("Name::unknown");
  old @1 :List(Text) $Cxx.name("newName") $Notes.ifAny;
  inner @2 :Inner $Notes.ifAny;
  list @3 :List(Inner);
  name @4 :Data $Notes.ifAny;
  share @5 :Float64 = 1234567.5;
  word @6 :Text $Notes.ifAny;
}
struct Inner $Notes.cppType("other::Inner") {
  part @0 :Int32 $Notes.cppMember("parts.first");
}
)");
  has(generated.structs(),
      "  Name named = Name::unknown;\n"
      "  std::vector<std::string> new_name;\n"
      "  other::Inner inner;\n"
      "  std::vector<other::Inner> list;\n"
      "  BlockName name;\n"
      "  double share = 1234567.5;\n"
      "  std::string word;\n"
      "  int more() const;\n");
  CHECK(generated.structs().find("struct Inner") == std::string::npos);
  has(generated.codec(),
      "  to.setNamed(wire(m.named));\n"
      "  if (!is_default(m.new_name)) put_list(m.new_name, to.initNewName(list_size(m.new_name)));\n"
      "  if (!is_default(m.inner)) put(m.inner, to.initInner());\n"
      "  put_list(m.list, to.initList(list_size(m.list)));\n");
  has(generated.codec(),
      "  get(from.getNamed(), m.named);\n"
      "  get_list(from.getNewName(), m.new_name);\n"
      "  if (from.hasInner()) get(from.getInner(), m.inner);\n"
      "  get_list(from.getList(), m.list);\n"
      "  if (from.hasName()) get(from.getName(), m.name);\n");
  has(generated.codec(), "  if (!is_default(m.word)) to.setWord(wire(m.word));\n");
  has(generated.codec(), "  if (from.hasWord()) get(from.getWord(), m.word);\n");
  has(generated.codec(), "  m.parts.first = from.getPart();\n");
}

TEST_CASE("message generator: a schema that has no C++ form is refused with the place") {
  has(Generated("struct First { number @0 :UInt32 $Notes.ifAny; }").errors(),
      "sample.capnp:First.number: $ifAny; expected a list, a struct, text or data");
  has(Generated("struct First { inner @0 :Inner; struct Inner { n @0 :UInt32; } }").errors(),
      "sample.capnp:First.Inner: a type inside a struct; expected beside it");
  has(Generated("struct First { both :group { n @0 :UInt32; } }").errors(), "First.both: a group");
  has(Generated("struct First { any @0 :AnyPointer; }").errors(),
      "First.any: a type that messages do not use");
  has(Generated("struct First { word @0 :Text = \"more\"; }").errors(),
      "First.word: a default that is no number; expected none, or $cppDefault");
  has(Generated("struct First { n @0 :UInt32; } struct Other { union { a @0 :UInt32; b @1 :Text; } }")
          .errors(),
      "a second struct with a union");
}

}  // namespace troupe::message_generator_test
