#include "deploy/convert/pickle.h"

#include <doctest/doctest.h>

#include "deploy/testing/conversion_test.h"
#include "deploy/testing/torch_archive_test.h"

using namespace troupe;
using namespace troupe::deploy;

namespace pickle_test {

std::string read(const std::string& steps) {
  try {
    const Pickle pickle("x.pt", "data.pkl", std::as_bytes(std::span(steps)));
    return "read " + describe(pickle.root());
  } catch (const kernels::LoadError& error) {
    return error.what();
  }
}

std::string refused(const std::string& steps) { return read(pickle_begin + steps); }

std::string tensor(const TestTensor& tensor) { return pickled_tensor(tensor, "0") + "."; }

TEST_CASE("pickle: code is refused by its name and its position, and nothing is called") {
  const std::string system = pickled_name("posix", "system") + "(" + pickled("touch /tmp/x") + "tR.";
  CHECK(has(refused(system), "data.pkl at byte 2 names \"posix.system\""));
  for (const auto& [module, name] : {std::pair{"os", "system"},
                                     {"builtins", "eval"},
                                     {"__builtin__", "exec"},
                                     {"subprocess", "Popen"},
                                     {"torch", "load"},
                                     {"torch.hub", "load"},
                                     {"collections", "namedtuple"},
                                     {"numpy.core.multiarray", "_reconstruct"},
                                     {"my_models", "Ranker"}})
    CHECK_MESSAGE(has(refused(pickled_name(module, name) + "."), "which is no tensor, number"), name);
  const std::string dotted = pickled("torch") + pickled("_utils._rebuild_tensor_v2.__globals__") + "\x93.";
  CHECK(has(refused(dotted), "names \"torch._utils._rebuild_tensor_v2.__globals__\""));
}

TEST_CASE("pickle: getattr reads members of descriptions of shards only") {
  const std::string get = pickled_name("__builtin__", "getattr") + "(";
  const std::string shard = "torch.distributed._shard.sharded_tensor.metadata";
  CHECK(refused(get + pickled_name(shard, "MEM_FORMAT_ENCODING") + pickled("X") + "tR.") ==
        "read an object of " + shard + ".MEM_FORMAT_ENCODING");
  CHECK(has(refused(get + pickled_name("torch", "device") + pickled("__init__") + "tR."),
            "getattr is called with torch.device"));
  CHECK(has(refused(get + pickled("a") + pickled("b") + "tR."), "getattr is called with \"a\""));
}

TEST_CASE("pickle: a table that is sharded over processes is named, and not read") {
  const std::string type = pickled_name("torch.distributed._shard.sharded_tensor.api", "ShardedTensor");
  const std::string steps = pickled_name("torch._tensor", "_rebuild_from_type_v2") + "(" +
                            pickled_name("torch._utils", "_rebuild_wrapper_subclass") + type + "(" + type +
                            "tNtR.";
  CHECK(refused(steps) == "read an object of torch.distributed._shard.sharded_tensor.api.ShardedTensor");
  CHECK(has(refused(pickled_name("torch.distributed", "init_process_group") + "."),
            "expected tensors that are whole"));
}

TEST_CASE("pickle: steps of other protocols and unknown steps are refused") {
  CHECK(has(read("(lp0\n."), "has the step 108"));
  CHECK(has(read("\x80\x01N."), "has protocol 1"));
  CHECK(has(read("\x80\x06N."), "has protocol 6"));
  CHECK(has(read("I1\n."), "data.pkl at byte 0 has the step 73"));
  CHECK(has(refused("\x8f."), "has the step 143"));            // a set
  CHECK(has(refused("i__main__\nX\n."), "has the step 105"));  // an instance
  CHECK(has(refused("\x82\x01."), "has the step 130"));        // an extension's code
}

TEST_CASE("pickle: steps that take values that are not there are refused") {
  for (const std::string steps : {".", "R.", "a.", "s.", "\x85.", "(\x85.", "Q.", "b.", "q\1."})
    CHECK_MESSAGE(has(refused(steps), "takes a value that is not there"), steps);
  for (const std::string steps : {"t.", "]e.", "}u."})
    CHECK_MESSAGE(has(refused(steps), "has no mark"), steps);
  CHECK(has(refused("h\7."), "recalls value 7"));
  CHECK(has(refused("Na."), "takes a value"));
  CHECK(has(refused("NNa."), "appends to None"));
  CHECK(has(refused(")Na."), "appends to a tuple"));
  CHECK(has(refused("NNNs."), "sets a member of None"));
  CHECK(has(refused("}(Nu."), "sets a key without a value"));
  CHECK(has(refused("NNb."), "sets the state of None"));
  CHECK(has(refused("N)R."), "calls None"));
}

TEST_CASE("pickle: lengths beyond the file are refused") {
  CHECK(has(refused("X\xff\xff\xff\xff"), "ends early"));
  CHECK(has(refused("\x8d" + bytes_of_number(UINT64_MAX) + "x"), "ends early"));
  CHECK(has(refused("\x8a\xff" + std::string(300, 'x') + "."), "has a number of 255 bytes"));
  CHECK(has(refused("c" + std::string(1000, 'x')), "has a name without an end"));
  const std::string whole = pickled_state({float_tensor("a", {2}, {1, 2})});
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK(has(read(whole.substr(0, length)), "ends early"));
}

TEST_CASE("pickle: values that take more memory than the file are bounded") {
  const std::string many(Pickle::values_max + 10, ')');
  CHECK(has(refused(many + "."), "has too many values"));
  const std::string marks(Pickle::values_max + 10, '(');
  CHECK(has(refused(marks + "."), "has too many values"));
  std::string pairs = "](";  // a list of a thousand pairs, which is then made a dictionary again and again
  for (int i = 0; i < 1000; ++i) pairs += "NN\x86";
  pairs += "eq\1";
  for (int i = 0; i < 3000; ++i) pairs += pickled_name("collections", "OrderedDict") + "(h\1tR";
  CHECK(has(refused(pairs + "."), "has too many values"));
}

TEST_CASE("pickle: depth and values that hold themselves cost nothing") {
  std::string deep(1'000'000, ']');
  deep += std::string(999'999, 'a');
  CHECK(refused(deep + ".") == "read a list");
  CHECK(refused("]q\1h\1a.") == "read a list");
  CHECK(refused("}q\1" + pickled("a") + "h\1s.") == "read a dictionary");
}

TEST_CASE("pickle: numbers, texts and bytes of every form are read") {
  CHECK(refused("K\7.") == "read 7");
  CHECK(refused("M\1\1.") == "read 257");
  CHECK(refused("J\xff\xff\xff\xff.") == "read -1");
  CHECK(refused(std::string("\x8a\0.", 3)) == "read 0");
  CHECK(refused("\x8a\1\xff.") == "read -1");
  CHECK(refused(pickled(std::int64_t{1} << 40) + ".") == "read 1099511627776");
  CHECK(refused("G\x3f\xf8" + std::string(6, '\0') + ".") == "read 1.500000");
  CHECK(refused("\x8c\2ab.") == "read \"ab\"");
  CHECK(refused("U\2ab.") == "read \"ab\"");
  CHECK(refused("C\2ab.") == "read bytes");
  CHECK(read("\x80\x04\x95" + std::string(8, '\0') + "\x88.") == "read True");
  CHECK(read("\x80\x04\x8c\x0b"
             "collections\x8c\x0b"
             "OrderedDict\x93)R\x94.") == "read a dictionary");
}

TEST_CASE("pickle: a tensor must lie in its storage, whatever its numbers overflow") {
  const std::string data(40, 'x');  // ten numbers
  CHECK(refused(tensor({"", {2, 5}, data})) == "read a tensor");
  CHECK(refused(tensor({"", {5, 2}, data, "FloatStorage", {1, 5}})) == "read a tensor");
  CHECK(refused(tensor({"", {}, data, "FloatStorage", {}, 9})) == "read a tensor");
  CHECK(refused(tensor({"", {3, 0}, data})) == "read a tensor");
  const std::int64_t huge = std::int64_t{1} << 62;
  for (const TestTensor& wrong : {
           TestTensor{"", {11}, data},
           TestTensor{"", {10}, data, "FloatStorage", {}, 1},
           TestTensor{"", {2, 5}, data, "FloatStorage", {6, 1}},
           TestTensor{"", {huge, huge}, data, "FloatStorage", {4, 4}},
           TestTensor{"", {2, 2}, data, "FloatStorage", {huge, huge}},
           TestTensor{"", {2}, data, "FloatStorage", {1}, huge},
           TestTensor{"", {}, data, "FloatStorage", {}, 10},
       })
    CHECK(has(refused(tensor(wrong)), "leaves its storage \"0\" of 10 elements"));
  CHECK(has(refused(tensor({"", {11}, data, "FloatStorage", {0}})), "no more elements than it"));  // a bomb
  CHECK(has(refused(tensor({"", {-1}, data})), "a tensor's shape is -1"));
  CHECK(has(refused(tensor({"", {2, 5}, data, "FloatStorage", {-5, 1}})), "a tensor's strides is -5"));
  CHECK(has(refused(tensor({"", {1, 1, 1, 1, 1, 1, 1, 1, 1}, data})), "a tensor's shape has 9 entries"));
  CHECK(has(refused(tensor({"", {2, 5}, data, "FloatStorage", {1}})), "has 1 strides"));
}

TEST_CASE("pickle: storages and tensors of wrong parts are refused") {
  CHECK(has(refused("(" + pickled("module") + "NNNNtQ."), "a persistent object is no storage"));
  CHECK(has(refused("(" + pickled("storage") + "NNNNtQ."), "a storage's class is None"));
  CHECK(has(refused("NQ."), "a storage's description is None"));
  const std::string rebuild = pickled_name("torch._utils", "_rebuild_tensor_v2");
  CHECK(has(refused(rebuild + ")R."), "a tensor has 0 arguments"));
  CHECK(has(refused(rebuild + "(NNNNtR."), "a tensor's storage is None"));
  const std::string inner = pickled_name("torch._tensor", "_rebuild_from_type_v2");
  CHECK(has(refused(inner + "(" + inner + "N)tR."), "a function that rebuilds a tensor"));
}

TEST_CASE("pickle: marks that change a tensor's values are refused, with and without a dtype") {
  const auto marked = [](const std::string& marks) {
    std::string steps = pickled_tensor(float_tensor("", {2}, {1, 2}), "0");
    return steps.substr(0, steps.size() - 2) + marks + "tR.";
  };
  CHECK(refused(marked("N")) == "read a tensor");
  CHECK(refused(marked("}")) == "read a tensor");
  CHECK(has(refused(marked("}" + pickled("neg") + "\x88s")), "a tensor has marks, such as \"neg\""));
  CHECK(has(refused(marked("}" + pickled("conj") + "\x88s")), "expected a tensor without"));
  CHECK(has(refused(marked("K\1")), "a tensor has marks"));
  const std::string typed = pickled_name("torch._utils", "_rebuild_tensor_v3") + "((" + pickled("storage") +
                            pickled_name("torch.storage", "UntypedStorage") + pickled("0") + pickled("cpu") +
                            "K\x08tQ" + pickled(0) + pickled_tuple({2}) + pickled_tuple({1}) + "\x89}" +
                            pickled_name("torch", "float32");
  CHECK(refused(typed + "tR.") == "read a tensor");
  CHECK(has(refused(typed + "}" + pickled("neg") + "\x88stR."), "a tensor has marks"));
}

TEST_CASE("pickle: the state of a tensor, which would replace its storage, is refused") {
  const std::string steps = pickled_tensor(float_tensor("", {2}, {1, 2}), "0");
  CHECK(has(refused(steps + "(NNNNtb."), "sets the state of a tensor; expected a dictionary"));
}

TEST_CASE("pickle: members are found by their keys, the last of equal ones") {
  const std::string steps =
      pickle_begin + "}(" + pickled("a") + "K\1" + pickled("b") + "N" + pickled("a") + "K\2K\3Nu.";
  const Pickle pickle("x.pt", "data.pkl", std::as_bytes(std::span(steps)));
  REQUIRE(pickle.member(pickle.root(), "a") != nullptr);
  CHECK(describe(*pickle.member(pickle.root(), "a")) == "2");
  CHECK(pickle.member(pickle.root(), "c") == nullptr);
  CHECK(pickle.members(pickle.root()).size() == 3);
  REQUIRE(pickle.other_key(pickle.root()) != nullptr);
  CHECK(describe(*pickle.other_key(pickle.root())) == "3");
  CHECK(pickle.size() == steps.size());
}

}  // namespace pickle_test
