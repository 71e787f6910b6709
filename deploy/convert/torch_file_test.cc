#include "deploy/convert/torch_file.h"

#include <doctest/doctest.h>

#include <cmath>

#include "deploy/convert/state_dict.h"
#include "deploy/testing/conversion_test.h"
#include "deploy/testing/torch_archive_test.h"

using namespace troupe;
using namespace troupe::deploy;

namespace torch_file_test {

using Floats = std::vector<float>;

const PickleTensor& named(const TorchBytes& file, const std::string& name) {
  const PickleValue* const state = file.pickle().member(file.pickle().root(), "model_state_dict");
  REQUIRE(state != nullptr);
  const PickleValue* const value = file.pickle().member(*state, name);
  REQUIRE(value != nullptr);
  return std::get<PickleTensor>(*value);
}

Floats values(const std::string& bytes, const std::string& name) {
  const TorchBytes file("x.pt", std::as_bytes(std::span(bytes)));
  return file.values(named(file, name), name);
}

// Returns what reading the tensor "a" says.
std::string said(const std::string& bytes) {
  try {
    values(bytes, "a");
    return "read";
  } catch (const kernels::LoadError& error) {
    return error.what();
  }
}

const Floats six{1, 2, 3, 4, 5, 6};

TEST_CASE("torch file: views with strides and offsets become row-major") {
  std::vector<TestTensor> tensors{float_tensor("whole", {2, 3}, six)};
  TestTensor view{"turned", {3, 2}, ""};
  view.strides = {1, 3};
  view.elements = 6;
  view.key = "0";
  tensors.push_back(view);
  view.name = "part";
  view.shape = {2};
  view.strides = {3};
  view.offset = 1;
  tensors.push_back(view);
  view.name = "one";
  view.shape = view.strides = {};
  view.offset = 5;
  tensors.push_back(view);
  const std::string older = older_torch_file(tensors);
  for (const std::string& bytes : {torch_archive(tensors), older}) {
    CHECK(values(bytes, "whole") == six);
    CHECK(values(bytes, "turned") == Floats{1, 4, 2, 5, 3, 6});
    CHECK(values(bytes, "part") == Floats{2, 5});
    CHECK(values(bytes, "one") == Floats{6});
  }
}

TEST_CASE("torch file: the older form may be larger than a pickle") {
  TestTensor large{"large",
                   {static_cast<std::int64_t>(Pickle::bytes_max) + 8},
                   std::string(Pickle::bytes_max + 8, '\1'),
                   "ByteStorage"};
  CHECK(values(older_torch_file({float_tensor("a", {2, 3}, six), large}), "a") == six);
}

TEST_CASE("torch file: every type of numbers is read, of any device") {
  const auto typed = [](const std::string& storage, std::string data) {
    TestTensor tensor{"a", {2}, std::move(data), storage};
    tensor.device = "cuda:3";
    return values(torch_archive({tensor}), "a");
  };
  CHECK(typed("DoubleStorage", bytes_of_numbers<double>({0.5, -2})) == Floats{0.5, -2});
  CHECK(typed("HalfStorage", half_bytes({0.5, -2}, false)) == Floats{0.5, -2});
  CHECK(typed("BFloat16Storage", half_bytes({0.5, -2}, true)) == Floats{0.5, -2});
  CHECK(typed("LongStorage", bytes_of_numbers<std::int64_t>({7, -2})) == Floats{7, -2});
  CHECK(typed("IntStorage", bytes_of_numbers<std::int32_t>({7, -2})) == Floats{7, -2});
  CHECK(typed("ShortStorage", bytes_of_numbers<std::int16_t>({7, -2})) == Floats{7, -2});
  CHECK(typed("CharStorage", bytes_of_numbers<std::int8_t>({7, -2})) == Floats{7, -2});
  CHECK(typed("ByteStorage", bytes_of_numbers<std::uint8_t>({7, 254})) == Floats{7, 254});
  CHECK(typed("BoolStorage", bytes_of_numbers<std::uint8_t>({1, 0})) == Floats{1, 0});
}

TEST_CASE("torch file: integers keep all their digits") {
  const std::vector<std::int64_t> numbers{INT64_MAX, INT64_MIN};
  const std::string bytes =
      torch_archive({{"a", {2}, bytes_of_numbers(numbers), "LongStorage"},
                     {"b", {2}, bytes_of_numbers<std::int16_t>({-3, 3}), "ShortStorage"},
                     float_tensor("c", {1}, {1})});
  const TorchBytes file("x.pt", std::as_bytes(std::span(bytes)));
  CHECK(file.integers(named(file, "a"), "a") == numbers);
  CHECK(file.integers(named(file, "b"), "b") == std::vector<std::int64_t>{-3, 3});
  CHECK_THROWS_AS(file.integers(named(file, "c"), "c"), kernels::LoadError);
}

TEST_CASE("torch file: the form is described") {
  ZipFile parts = torch_parts({float_tensor("a", {1}, {1})});
  const auto form = [](const std::string& bytes) {
    return TorchBytes("x.pt", std::as_bytes(std::span(bytes))).form();
  };
  CHECK(form(parts.bytes()) == "a zip archive, pickle protocol 2, storages of \"cpu\"");
  parts.parts.push_back({"archive/byteorder", "little"});
  parts.parts.push_back({"archive/.format_version", "1"});
  parts.parts.push_back({"archive/.data/serialization_id", "12"});
  CHECK(form(parts.bytes()) == "a zip archive of PyTorch 2, pickle protocol 2, storages of \"cpu\"");
  CHECK(form(older_torch_file({float_tensor("a", {1}, {1})})) ==
        "the form before PyTorch 1.6, pickle protocol 2, storages of \"cpu\"");
}

TEST_CASE("torch file: other files and other forms are refused by name") {
  CHECK(has(said("hello"), "begins like no file of torch.save"));
  CHECK(has(said(""), "begins like no file of torch.save"));
  CHECK(has(said(std::string(257, 'x') + "ustar" + std::string(250, 'x')), "a tar archive"));
  CHECK(has(said(pickle_begin + "N."), "a pickle that torch.save did not write"));
  ZipFile parts = torch_parts({float_tensor("a", {1}, {1})});
  parts.parts.push_back({"archive/constants.pkl", "x"});
  CHECK(has(said(parts.bytes()), "a TorchScript program"));
  parts.parts.back() = {"archive/byteorder", "big"};
  CHECK(has(said(parts.bytes()), "byteorder is \"big\""));
  parts.parts.back() = {"other/data.pkl", "x"};
  CHECK(has(said(parts.bytes()), "has two files data.pkl"));
  CHECK(has(said(ZipFile{{{"archive/x", "x"}}}.bytes()), "has no NAME/data.pkl"));
}

TEST_CASE("torch file: storages must have the announced size") {
  ZipFile parts = torch_parts({float_tensor("a", {2}, {1, 2})});
  CHECK(said(parts.bytes()) == "read");
  parts.parts[1].data += "more";
  CHECK(has(said(parts.bytes()), "the storage of tensor \"a\" has 12 bytes; expected 2 elements of 4 bytes"));
  parts.parts.erase(parts.parts.begin() + 1);
  CHECK(has(said(parts.bytes()), "has no entry \"archive/data/0\""));
  TestTensor climbing = float_tensor("a", {2}, {1, 2});
  climbing.key = "../version";
  climbing.elements = 2;
  CHECK(has(said(torch_archive({climbing})), "has no entry \"archive/data/../version\""));
  const std::string older = older_torch_file({float_tensor("a", {2}, {1, 2})});
  CHECK(has(said(older.substr(0, older.size() - 1)), "is cut or has another size"));
  CHECK(has(said(older + "more"), "has 4 bytes behind its last storage; expected none"));
}

// Takes all tensors of a file; returns what that says.
std::string taken(const std::string& bytes) {
  try {
    const TorchBytes file("x.pt", std::as_bytes(std::span(bytes)));
    StateDict state(file);
    for (const std::string& name : state.names()) state.take(name, TensorShape(state.shape(name)), "itself");
    return "taken";
  } catch (const kernels::LoadError& error) {
    return error.what();
  }
}

TEST_CASE("state dict: tensors may share a storage, but a small file cannot stand for a large model") {
  constexpr std::int64_t elements = 10'000;
  std::vector<TestTensor> tensors{float_tensor("a", {elements}, Floats(elements, 1))};
  TestTensor view{"", {elements}, ""};
  view.key = "0";
  view.elements = elements;
  const auto add = [&](int views) {
    for (int i = 0; i < views; ++i) view.name = "b" + std::to_string(tensors.size()), tensors.push_back(view);
  };
  add(3);
  CHECK(taken(torch_archive(tensors)) == "taken");
  CHECK(taken(older_torch_file(tensors)) == "taken");
  add(40);
  CHECK(
      has(taken(torch_archive(tensors)), "elements that share storages; expected at most 4 elements a byte"));
  CHECK(has(taken(older_torch_file(tensors)), "elements that share storages"));
}

TEST_CASE(
    "torch file: values that are not finite, and types without values, are refused with the tensor's name") {
  CHECK(has(said(torch_archive({float_tensor("a", {2}, {1, NAN})})),
            "tensor \"a\" has a value that is not finite"));
  TestTensor large{"a", {1}, bytes_of_numbers<double>({1e300}), "DoubleStorage"};
  CHECK(has(said(torch_archive({large})), "not finite in float32"));
  TestTensor complex{"a", {1}, std::string(1, 'x'), "ComplexFloatStorage"};
  CHECK(has(said(torch_archive({complex})), "tensor \"a\" is of another type"));
}

}  // namespace torch_file_test
