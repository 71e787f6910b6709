// Parses a safetensors file: its tensors cover the data without gaps, and their values are read from
// within it.
#include "kernels/checkpoint/safetensors.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

using namespace kernels;

// Corrects the length of the header, if a byte of the input says so.
std::string with_right_length(std::string_view header, std::string_view data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length).append(header).append(data);
}

void check_tensor(const Safetensors& file, const std::string& name, const StoredTensor& tensor,
                  std::size_t bytes) {
  TROUPE_CHECK(tensor.begin <= tensor.end && tensor.end <= bytes, "a tensor outside its file");
  try {
    TROUPE_CHECK(file.values(name).size() <= tensor.end - tensor.begin, "more values than bytes");
  } catch (const LoadError& error) {
    check_words(error.what(), 1'024);
  }
}

void run(Input input) {
  const std::uint8_t choice = take_choice(input);
  const std::string_view text = text_of(input);
  const std::size_t data = std::min<std::size_t>(choice, text.size());
  const std::string bytes =
      choice == 255 ? std::string(text)
                    : with_right_length(text.substr(0, text.size() - data), text.substr(text.size() - data));
  try {
    const Safetensors file("x.safetensors", std::as_bytes(std::span(bytes)));
    for (const auto& [name, tensor] : file.tensors()) check_tensor(file, name, tensor, bytes.size());
  } catch (const LoadError& error) {
    const std::string_view words = error.what();
    TROUPE_CHECK(words.starts_with("x.safetensors: ") && words.find("; expected ") != words.npos, "no place");
    check_words(words, 2'048);
  }
}

std::string entry(const char* type, const char* shape, const char* offsets) {
  return std::string("{\"dtype\":\"") + type + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

std::vector<std::string> seeds() {
  const std::string two =
      "{\"a\":" + entry("F32", "[1,2]", "[0,8]") + ",\"b\":" + entry("BF16", "[2]", "[8,12]") + "}";
  const std::string rest = R"({"__metadata__":{"format":"pt"},"s":)" + entry("F16", "[]", "[0,2]") +
                           ",\"e\":" + entry("I64", "[3,0]", "[2,2]") + "}  ";
  return {"\x0c" + two + std::string(12, '\1'), "\x02" + rest + "ab", std::string(1, '\0') + "{}",
          "\xff" + with_right_length("{}", "")};
}

}  // namespace

const Target weights_target{"weights", run, seeds};

}  // namespace troupe::fuzz
