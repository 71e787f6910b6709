#include "kernels/checkpoint/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernels/testing/test_folder.h"

namespace troupe::kernels {
namespace safetensors_test {

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data;
}

// Returns the error for a file with these bytes, without the file's name.
std::string fault(const std::string& bytes) {
  const TestFolder folder;
  folder.write("x.safetensors", bytes);
  const std::string message = load_error_of([&] { SafetensorsFile(folder.path() / "x.safetensors"); });
  const std::size_t at = message.find("x.safetensors: ");
  return at == std::string::npos ? message : message.substr(at + 15);
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST_CASE(
    "safetensors: tensors survive writing and reading in every format, exactly where it can hold them") {
  const TestFolder folder;
  const std::vector<float> a{0.0f, -1.0f, 0.5f, 65504.0f, 0x1p-24f, -0.0f}, b{3.0f};
  const NamedTensor tensors[] = {{"a", {2, 3}, a}, {"b", {1}, b}};
  for (const StoredAs stored_as : {StoredAs::f32, StoredAs::f16, StoredAs::bf16}) {
    const auto path = folder.path() / "x.safetensors";
    write_safetensors(path, tensors, stored_as);
    const SafetensorsFile file(path);
    CHECK(file.tensors().size() == 2);
    CHECK(file.tensors().at("a").shape == std::vector<std::uint64_t>{2, 3});
    std::vector<float> expected = a;
    if (stored_as == StoredAs::bf16) expected[3] = 65536.0f;  // eight bits of significand
    CHECK(file.values("a") == expected);
    CHECK(file.values("b") == b);
  }
}

TEST_CASE("safetensors: a header may have metadata, scalars, empty tensors and trailing spaces") {
  CHECK(fault(file_of("{}", "")) == "");
  CHECK(fault(file_of(R"({"__metadata__":{"format":"pt"}}   )", "")) == "");
  CHECK(fault(file_of(R"({"s":)" + entry("\"F32\"", "[]", "[0,4]") + R"(,"e":)" +
                          entry("\"F32\"", "[3,0]", "[4,4]") + "}",
                      "1234")) == "");
}

TEST_CASE("safetensors: a header that does not match the file is refused with what is wrong") {
  CHECK(fault("") == "it is an empty file; expected a safetensors file");
  CHECK(fault(std::string(8, '\xff')) ==
        "the header length is 18446744073709551615; expected at most 0 in this file, which is no "
        "safetensors file or was cut short");
  CHECK(fault(file_of("{", "")) == "no valid JSON at byte 2; expected a JSON document");
  CHECK(fault(file_of("[]", "")) == "the header is an array; expected an object");
  CHECK(fault(file_of(R"({"a":1})", "")) == "tensor \"a\" is 1; expected an object");
  const auto one = [](const std::string& entry) {
    return fault(file_of("{\"a\":" + entry + "}", "12345678"));
  };
  CHECK(one(entry("\"F32\"", "[2]", "[0,8]")) == "");
  CHECK(one(entry("\"F33\"", "[2]", "[0,8]")) ==
        "tensor \"a\".dtype is \"F33\"; expected a type of the safetensors format");
  CHECK(one(entry("\"F32\"", "[2]", "[0,9]")) ==
        "has 8 bytes of data; expected 9, by its header: the file was cut short, or the header is damaged");
  CHECK(one(entry("\"F32\"", "[2]", "[8,0]")) ==
        "tensor \"a\".data_offsets is an array; expected [begin, end] with begin <= end <= 8, found [8, 0]");
  CHECK(one(entry("\"F32\"", "[3]", "[0,8]")) ==
        "tensor \"a\".shape is an array; expected what 8 bytes of F32 hold, found [3]");
  CHECK(one(entry("\"F32\"", "[1]", "[0,4]")) == "8 bytes of data; expected the tensors' 4");
  CHECK(one(entry("\"F32\"", "[1]", "[4,8]")) ==
        "tensor \"a\" begins at byte 4; expected 0, where the data before it ends");
}

TEST_CASE("safetensors: a file of another kind is refused, and the error says what it is") {
  const auto kind = [](std::string bytes) {
    bytes += std::string(600, ' ');
    const std::string text = fault(bytes), expected = "; expected a safetensors file";
    REQUIRE(text.starts_with("it is "));
    REQUIRE(text.ends_with(expected));
    return text.substr(6, text.size() - 6 - expected.size());
  };
  CHECK(kind("PK\x03\x04") == "a zip archive, as torch.save writes it (.pt, .bin)");
  CHECK(kind("\x80\x02}q") == "a pickle, as older versions of torch.save write it");
  CHECK(kind("<!DOCTYPE html><html>") == "an HTML page, as a download without access gives it");
  CHECK(kind("\n <HTML>") == "an HTML page, as a download without access gives it");
  CHECK(kind("version https://git-lfs.github.com/spec/v1\noid sha256:0\n") ==
        "a pointer of git-lfs, in place of the file itself: run git lfs pull");
  CHECK(kind("GGUF\x03") == "a GGUF file of llama.cpp");
  CHECK(kind("\x1f\x8b") == "compressed by gzip");
  CHECK(kind("\x89HDF\r\n\x1a\n") == "an HDF5 file, as Keras and TensorFlow write it");
  CHECK(kind("<?xml version='1.0'?><Error>") == "an XML document, as an error of an object store");
  CHECK(kind("{\"error\": \"Repository not found\"}") ==
        "a server's error in JSON, in place of the download");
  CHECK(kind("") == "only white space");
  CHECK(fault(std::string(2000, '\0')) ==
        "it is only zeros, as a download that was cut short leaves them; expected a safetensors file");
}

TEST_CASE("safetensors: a header's length may spell the beginning of another kind of file") {
  std::string header = "{}";
  header.resize(0x8b1f, ' ');  // as bytes: 1f 8b, which begin a gzip file
  CHECK(fault(file_of(header, "")) == "");
  CHECK(fault(file_of("{}" + std::string(0x280 - 2, ' '), "")) == "");  // 80 02, a pickle
}

TEST_CASE("safetensors: numbers of the wrong kind and products that overflow are refused") {
  const auto one = [](const std::string& entry) {
    return fault(file_of("{\"a\":" + entry + "}", "12345678"));
  };
  // 4611686018427387906 elements of 4 bytes are 2^64 + 8 bytes.
  for (const char* shape : {"[-2]", "[2.0]", "[\"2\"]", "2", "null", "[18446744073709551616]", "[[2]]",
                            "[4611686018427387906]", "[4294967296,4294967296,2]", "[1,1,1,1,1,1,1,1,2]"}) {
    CAPTURE(shape);
    CHECK(one(entry("\"F32\"", shape, "[0,8]")) != "");
  }
  for (const char* offsets :
       {"[8,0]", "[0]", "[0,8,8]", "[-8,0]", "[0.0,8.0]", "{}", "[0,18446744073709551608]"}) {
    CAPTURE(offsets);
    CHECK(one(entry("\"F32\"", "[2]", offsets)) != "");
  }
  CHECK(one(entry("4", "[2]", "[0,8]")) != "");
}

TEST_CASE("safetensors: overlapping tensors and duplicate names are refused") {
  const std::string whole = entry("\"F32\"", "[2]", "[0,8]"), half = entry("\"F32\"", "[1]", "[4,8]");
  CHECK(fault(file_of("{\"a\":" + whole + ",\"b\":" + half + "}", "12345678")) ==
        "tensor \"b\" begins at byte 4; expected 8, where the data before it ends");
  CHECK(fault(file_of("{\"a\":" + whole + ",\"a\":" + whole + "}", "12345678")) ==
        "key \"a\" occurs twice in one object; expected unique keys");
}

TEST_CASE("safetensors: values that are not finite, and types that no weight has, are refused by name") {
  const TestFolder folder;
  const auto values_fault = [&](const std::string& dtype, const std::string& data) {
    folder.write(
        "x.safetensors",
        file_of("{\"w\":" + entry(dtype, "[2]", "[0," + std::to_string(data.size()) + "]") + "}", data));
    const SafetensorsFile file(folder.path() / "x.safetensors");
    const std::string message = load_error_of([&] { file.values("w"); });
    return message.substr(std::min(message.size(), message.find("tensor ")));
  };
  CHECK(values_fault("\"F32\"", std::string("\0\0\x80\x3f\0\0\x80\x7f", 8)) ==
        "tensor \"w\" holds infinity or NaN; expected finite values");
  CHECK(values_fault("\"F16\"", std::string("\0\x3c\0\xfc", 4)) != "");
  CHECK(values_fault("\"BF16\"", std::string("\x80\x3f\xc0\x7f", 4)) != "");
  CHECK(values_fault("\"F32\"", std::string("\0\0\x80\x3f\0\0\x80\x3f", 8)) == "");
  CHECK(values_fault("\"I64\"", std::string(16, '\1')) ==
        "tensor \"w\" has dtype I64; expected F32, F16 or BF16");
}

TEST_CASE("safetensors: values that the format cannot hold are not written") {
  const TestFolder folder;
  const auto write_fault = [&](float value, StoredAs stored_as) {
    const std::vector<float> values{value};
    const NamedTensor tensor{"w", {1}, values};
    return load_error_of([&] { write_safetensors(folder.path() / "x", {&tensor, 1}, stored_as); });
  };
  CHECK(write_fault(65504, StoredAs::f16) == "");
  CHECK(write_fault(65520, StoredAs::f16) != "");
  CHECK(write_fault(std::numeric_limits<float>::max(), StoredAs::bf16) != "");
  CHECK(write_fault(NAN, StoredAs::f32) != "");
}

TEST_CASE("safetensors: a path that is not a readable file is refused") {
  const TestFolder folder;
  CHECK(load_error_of([&] { SafetensorsFile(folder.path() / "none"); }).find("open failed") !=
        std::string::npos);
  CHECK(load_error_of([&] { SafetensorsFile{folder.path()}; }).find("not a regular file") !=
        std::string::npos);
}

}  // namespace safetensors_test
}  // namespace troupe::kernels
