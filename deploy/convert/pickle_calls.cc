// Turns the calls of a pickle of tensors into data, and checks that each tensor lies in its storage.
#include "deploy/convert/pickle_calls.h"

#include <algorithm>
#include <iterator>

#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {
namespace {

constexpr std::string_view known_globals[] = {
    "collections.OrderedDict",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._utils._rebuild_wrapper_subclass",
    "torch._tensor._rebuild_from_type_v2",
    "torch.Tensor",
    "torch.nn.parameter.Parameter",
    "torch.Size",
    "torch.device",
    "torch.storage.UntypedStorage",
    "torch.serialization._get_layout",
    "torch.distributed.remote_device._remote_device",
    "_codecs.encode",
    "_io.BytesIO",
    "__builtin__.bytes",
    "builtins.bytes",
    "__builtin__.getattr",
    "builtins.getattr",
};
// Calls whose results are not looked into.
constexpr std::string_view opaque_calls[] = {
    "torch.device",
    "_codecs.encode",
    "torch.serialization._get_layout",
    "__builtin__.bytes",
    "builtins.bytes",
    "_io.BytesIO",
    "torch.distributed.remote_device._remote_device",
};
// Descriptions of tensors that are sharded over processes, which are not looked into.
constexpr std::string_view shard_prefix = "torch.distributed._shard.";
constexpr std::string_view torch_prefix = "torch.";
constexpr std::size_t dimensions_max = 8, name_max = 256;

bool is_dotted_name(std::string_view name) {
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

std::string_view inside_torch(std::string_view name) {
  return name.starts_with(torch_prefix) ? name.substr(torch_prefix.size()) : std::string_view();
}

// Type of a storage class's full name, such as torch.FloatStorage.
std::optional<TensorType> type_of_storage_class(std::string_view name) {
  if (name == "torch.storage.UntypedStorage") return TensorType::unknown;
  return storage_type_of(inside_torch(name));
}

// Returns whether every element of the tensor is in a storage of `elements` elements, and whether it has
// no more elements than the storage, so that a small file cannot stand for a large tensor.
bool fits(const PickleTensor& tensor, std::uint64_t elements) {
  std::uint64_t total = 1, last = tensor.offset;
  for (const std::uint64_t size : tensor.shape) {
    if (size == 0) return tensor.offset <= elements;
    if (total > elements / size) return false;
    total *= size;
  }
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    const std::uint64_t steps = tensor.shape[i] - 1;
    if (steps != 0 && tensor.strides[i] > elements / steps) return false;
    last += steps * tensor.strides[i];
    if (last >= elements) return false;
  }
  return last < elements;
}

// Position of the marks ("neg", "conj") among a tensor's arguments, without and with a dtype.
constexpr std::size_t marks_argument = 6, marks_argument_with_dtype = 7;

std::string tensor_words(const PickleTensor& tensor) {
  std::string words = "[";
  for (const std::uint64_t size : tensor.shape)
    words += (words.size() > 1 ? ", " : "") + std::to_string(size);
  return words + "]";
}

}  // namespace

bool is_known_global(std::string_view name) {
  return std::ranges::find(known_globals, name) != std::end(known_globals) || type_of_storage_class(name) ||
         dtype_of(inside_torch(name)) || (name.starts_with(shard_prefix) && is_dotted_name(name));
}

const PickleList& PickleTable::list(PickleIndex index, std::string_view what) const {
  if (const auto* list = std::get_if<PickleList>(&values_[index])) return *list;
  throw PickleFault{std::string(what) + " is " + describe(values_[index]), "a tuple"};
}

const std::string& PickleTable::text(PickleIndex index, std::string_view what) const {
  const auto* text = std::get_if<std::string>(&values_[index]);
  if (text == nullptr) throw PickleFault{std::string(what) + " is " + describe(values_[index]), "a text"};
  if (text->size() > name_max)
    throw PickleFault{std::string(what) + " is " + std::to_string(text->size()) + " bytes long",
                      "at most " + std::to_string(name_max)};
  return *text;
}

std::uint64_t PickleTable::count(PickleIndex index, std::string_view what) const {
  const auto* number = std::get_if<std::int64_t>(&values_[index]);
  if (number != nullptr && *number >= 0) return static_cast<std::uint64_t>(*number);
  throw PickleFault{std::string(what) + " is " + describe(values_[index]), "an integer of at least 0"};
}

std::vector<std::uint64_t> PickleTable::counts(PickleIndex index, std::string_view what) const {
  const PickleList& found = list(index, what);
  if (found.items.size() > dimensions_max)
    throw PickleFault{std::string(what) + " has " + std::to_string(found.items.size()) + " entries",
                      "at most " + std::to_string(dimensions_max)};
  std::vector<std::uint64_t> all;
  for (const PickleIndex item : found.items) all.push_back(count(item, what));
  return all;
}

PickleValue PickleTable::storage_of(PickleIndex persistent_id) const {
  const PickleList& id = list(persistent_id, "a storage's description");
  const bool legacy = id.items.size() == 6;
  if ((id.items.size() != 5 && !legacy) || text(id.items[0], "a storage's kind") != "storage")
    throw PickleFault{"a persistent object is no storage", "(\"storage\", class, key, device, elements)"};
  const auto* storage_class = std::get_if<PickleGlobal>(&values_[id.items[1]]);
  const auto type = storage_class == nullptr ? std::nullopt : type_of_storage_class(storage_class->name);
  if (!type)
    throw PickleFault{"a storage's class is " + describe(values_[id.items[1]]), "one such as FloatStorage"};
  if (legacy && !std::holds_alternative<PickleNone>(values_[id.items[5]]))
    throw PickleFault{"a storage is a view of another storage", "storages of their own"};
  return PickleStorage{text(id.items[2], "a storage's key"), text(id.items[3], "a storage's device"), *type,
                       count(id.items[4], "a storage's size")};
}

PickleValue PickleTable::rebuilt(const PickleList& arguments, std::size_t least,
                                 std::optional<std::size_t> dtype) const {
  if (arguments.items.size() < least)
    throw PickleFault{"a tensor has " + std::to_string(arguments.items.size()) + " arguments",
                      "at least " + std::to_string(least)};
  PickleTensor tensor;
  tensor.storage = arguments.items[0];
  const auto* storage = std::get_if<PickleStorage>(&values_[tensor.storage]);
  if (storage == nullptr)
    throw PickleFault{"a tensor's storage is " + describe(values_[tensor.storage]), "a storage"};
  tensor.type = storage->type;
  std::uint64_t elements = storage->elements;
  if (dtype) {
    const auto* name = std::get_if<PickleGlobal>(&values_[arguments.items[*dtype]]);
    const auto type = name == nullptr ? std::nullopt : dtype_of(inside_torch(name->name));
    if (!type)
      throw PickleFault{"a tensor's type is " + describe(values_[arguments.items[*dtype]]), "a dtype"};
    tensor.type = *type;
    if (element_bytes(*type) > 1) elements /= element_bytes(*type);
  }
  tensor.offset = count(arguments.items[1], "a tensor's offset");
  tensor.shape = counts(arguments.items[2], "a tensor's shape");
  tensor.strides = counts(arguments.items[3], "a tensor's strides");
  if (tensor.shape.size() != tensor.strides.size())
    throw PickleFault{"a tensor of shape " + tensor_words(tensor) + " has " +
                          std::to_string(tensor.strides.size()) + " strides",
                      std::to_string(tensor.shape.size())};
  reject_marks(arguments, dtype ? marks_argument_with_dtype : marks_argument);
  if (!fits(tensor, elements))
    throw PickleFault{"a tensor of shape " + tensor_words(tensor) + " leaves its storage " +
                          kernels::in_quotes(storage->key) + " of " + std::to_string(elements) + " elements",
                      "a tensor within its storage, with no more elements than it"};
  return tensor;
}

// Views such as negated ones have the elements of their base and a mark, which changes their values.
void PickleTable::reject_marks(const PickleList& arguments, std::size_t argument) const {
  if (arguments.items.size() <= argument) return;
  const PickleValue& marks = values_[arguments.items[argument]];
  if (std::holds_alternative<PickleNone>(marks)) return;
  const auto* dict = std::get_if<PickleDict>(&marks);
  if (dict != nullptr && dict->members.empty()) return;
  throw PickleFault{
      "a tensor has marks" +
          (dict == nullptr ? std::string() : ", such as " + describe(values_[dict->members.front().first])),
      "a tensor without, as resolve_neg() and resolve_conj() make it"};
}

PickleValue PickleTable::ordered(const PickleList& arguments, std::size_t& copied) const {
  PickleDict dict;
  if (arguments.items.empty()) return dict;
  for (const PickleIndex pair : list(arguments.items[0], "the argument of an OrderedDict").items) {
    const PickleList& member = list(pair, "a member of an OrderedDict");
    if (member.items.size() != 2) throw PickleFault{"a member of an OrderedDict is no pair", "a pair"};
    dict.members.emplace_back(member.items[0], member.items[1]);
  }
  copied += dict.members.size();
  return dict;
}

std::optional<PickleValue> PickleTable::call(std::string_view name, const PickleList& arguments,
                                             PickleIndex& same, std::size_t& copied) const {
  const auto needs = [&](std::size_t least) {
    if (arguments.items.size() < least)
      throw PickleFault{std::string(name) + " has " + std::to_string(arguments.items.size()) + " arguments",
                        "at least " + std::to_string(least)};
  };
  if (name == "collections.OrderedDict") return ordered(arguments, copied);
  if (name == "torch._utils._rebuild_tensor") return rebuilt(arguments, 4, std::nullopt);
  if (name == "torch._utils._rebuild_tensor_v2") return rebuilt(arguments, 4, std::nullopt);
  if (name == "torch._utils._rebuild_tensor_v3") return rebuilt(arguments, 7, 6);
  if (name.starts_with("torch._utils._rebuild_parameter") || name == "torch.Size") {
    needs(1);
    same = arguments.items[0];
    return std::nullopt;
  }
  if (name == "torch._tensor._rebuild_from_type_v2") {
    needs(3);
    const auto* inner = std::get_if<PickleGlobal>(&values_[arguments.items[0]]);
    if (inner == nullptr || inner->name == name)
      throw PickleFault{"a tensor is rebuilt by " + describe(values_[arguments.items[0]]),
                        "a function that rebuilds a tensor"};
    return call(inner->name, list(arguments.items[2], "the arguments of a tensor"), same, copied);
  }
  if (name == "torch._utils._rebuild_wrapper_subclass" || name.ends_with(".getattr")) {
    needs(1);  // a member of an enumeration, or an object of a class, of the shards' descriptions
    const auto* owner = std::get_if<PickleGlobal>(&values_[arguments.items[0]]);
    if (owner == nullptr || !owner->name.starts_with(shard_prefix))
      throw PickleFault{std::string(name) + " is called with " + describe(values_[arguments.items[0]]),
                        "a class of " + std::string(shard_prefix)};
    return PickleObject{owner->name};
  }
  if (name.starts_with(shard_prefix) || std::ranges::find(opaque_calls, name) != std::end(opaque_calls))
    return PickleObject{std::string(name)};
  throw PickleFault{std::string(name) + " is called", "a function that makes tensors or containers"};
}

}  // namespace troupe::deploy
