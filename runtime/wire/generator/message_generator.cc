// The message generator: a program that the Cap'n Proto compiler runs. It reads the compiled schemas from
// its standard input and writes the C++ structs of all messages, and their conversion to and from Cap'n
// Proto, into the present folder. Schema comments become C++ comments; schema/annotations.capnp documents
// what a schema may say about its C++.
#include <capnp/serialize.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "runtime/wire/generator/write_codec.h"
#include "runtime/wire/generator/write_structs.h"

namespace {

// A file that would not change keeps its time, so that nothing is compiled again.
void write_file(const char* path, const std::string& text) {
  std::ostringstream present;
  present << std::ifstream(path).rdbuf();
  if (present.str() == text) return;
  std::ofstream out(path);
  if (!(out << text).flush()) throw std::runtime_error(std::string(path) + ": cannot be written");
}

}  // namespace

int main() {
  try {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = UINT64_MAX;  // the compiler is trusted
    capnp::StreamFdMessageReader message(STDIN_FILENO, options);
    const troupe::generator::SchemaRequest request(message.getRoot<capnp::schema::CodeGeneratorRequest>());
    write_file("message_structs.h", message_structs(request));
    write_file("message_codec.h", codec_declarations(request));
    write_file("message_codec.inc", codec_definitions(request));
  } catch (const std::exception& error) {
    std::cerr << "message_generator: " << error.what() << "\n";
    return 1;
  }
}
