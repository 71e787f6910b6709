// Reads the two forms of torch.save and copies tensors out of their storages.
#include "deploy/convert/torch_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "deploy/convert/byte_cursor.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {
namespace {

constexpr std::string_view pickle_entry = "data.pkl";
// The number with which the older form begins, as the bytes of a pickled integer.
constexpr std::array<unsigned char, 10> older_magic{0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                                    0x20, 0x6a, 0xa8, 0x50, 0x19};

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& wrong,
                         const std::string& expected) {
  kernels::throw_load_error(file, wrong, expected);
}

// Returns the folder of an archive's entries, "archive/" as a rule.
std::string prefix_of(const std::filesystem::path& file, const ZipArchive& archive) {
  std::string prefix;
  for (const auto& [name, entry] : archive.entries()) {
    const std::size_t slash = name.find('/');
    if (slash == name.npos || name.substr(slash + 1) != pickle_entry) continue;
    if (!prefix.empty()) refuse(file, "the archive has two files data.pkl", "one");
    prefix = name.substr(0, slash + 1);
  }
  if (prefix.empty()) refuse(file, "the archive has no NAME/data.pkl", "a file of torch.save");
  if (archive.has(prefix + "constants.pkl"))
    refuse(file, "a TorchScript program (constants.pkl)", "a file of torch.save with a state_dict");
  return prefix;
}

std::string_view text_of_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Calls `take` with the byte offset of each element in row-major order. The tensor lies in its storage
// (pickle_calls.cc), so no offset overflows.
template <class Take>
void for_each_element(const PickleTensor& tensor, std::size_t element_size, const Take& take) {
  if (std::ranges::find(tensor.shape, 0u) != tensor.shape.end()) return;
  std::vector<std::uint64_t> index(tensor.shape.size(), 0);
  std::uint64_t element = tensor.offset;
  for (;;) {
    take(element * element_size);
    std::size_t axis = index.size();
    while (axis > 0) {
      --axis;
      element += tensor.strides[axis];
      if (++index[axis] < tensor.shape[axis]) break;
      element -= tensor.strides[axis] * tensor.shape[axis];
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (index.empty()) return;
  }
}

std::uint64_t elements_of(const PickleTensor& tensor) {
  std::uint64_t total = 1;
  for (const std::uint64_t size : tensor.shape) total *= size;
  return total;
}

bool is_integer(TensorType type) {
  return type == TensorType::i64 || type == TensorType::i32 || type == TensorType::i16 ||
         type == TensorType::i8 || type == TensorType::u8 || type == TensorType::boolean;
}

std::int64_t integer_value(TensorType type, const std::byte* bytes) {
  if (type == TensorType::u8 || type == TensorType::boolean) return std::to_integer<std::int64_t>(*bytes);
  std::int64_t value = 0;
  const std::size_t size = element_bytes(type);
  std::memcpy(&value, bytes, size);
  const int unused = static_cast<int>(64 - 8 * size);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << unused) >> unused;
}

}  // namespace

TorchBytes::TorchBytes(std::filesystem::path file, std::span<const std::byte> bytes)
    : file_(std::move(file)), bytes_(bytes) {
  const std::string_view text = text_of_bytes(bytes_);
  if (ZipArchive::begins_like_one(bytes_))
    read_archive();
  else if (text.starts_with('\x80'))
    read_pickles();
  else if (text.size() > 262 && text.substr(257, 5) == "ustar")
    refuse(file_, "a tar archive, the form of PyTorch 0.1",
           "a file of a later torch.save: load it there and save it again");
  else
    refuse(file_, "begins like no file of torch.save", "a zip archive or a pickle");
}

void TorchBytes::read_archive() {
  archive_.emplace(file_, bytes_);
  prefix_ = prefix_of(file_, *archive_);
  if (archive_->has(prefix_ + "byteorder"))
    if (const auto order = text_of_bytes(archive_->read(prefix_ + "byteorder")); order != "little")
      refuse(file_, "byteorder is " + kernels::in_quotes(order),
             "\"little\": save the file on a little-endian machine");
  pickle_ =
      std::make_unique<Pickle>(file_, pickle_entry, archive_->read(prefix_ + std::string(pickle_entry)));
}

// Five pickles (a magic number, the version of the form, facts of the machine, the object, and the keys
// of its storages), and then each storage: its number of elements, and the elements.
void TorchBytes::read_pickles() {
  std::uint64_t position = 0;
  const auto next = [&](std::string_view part) {
    const auto rest = bytes_.subspan(position);
    Pickle pickle(file_, part, rest.first(std::min(rest.size(), Pickle::bytes_max)));
    position += pickle.size();
    return pickle;
  };
  const Pickle magic = next("the first pickle");
  const auto* bytes = std::get_if<PickleBytes>(&magic.root());
  if (bytes == nullptr || bytes->bytes.size() != older_magic.size() ||
      std::memcmp(bytes->bytes.data(), older_magic.data(), older_magic.size()) != 0)
    refuse(file_, "a pickle that torch.save did not write", "a file of torch.save");
  const Pickle version = next("the second pickle");
  if (const auto* number = std::get_if<std::int64_t>(&version.root()); number == nullptr || *number != 1001)
    refuse(file_, "the version of its form is " + describe(version.root()), "1001");
  const Pickle machine = next("the third pickle");
  const PickleValue* const little = machine.member(machine.root(), "little_endian");
  if (const auto* is = little == nullptr ? nullptr : std::get_if<bool>(little); is == nullptr || !*is)
    refuse(file_, "saved on a machine that is not little-endian", "a file of a little-endian machine");
  pickle_ = std::make_unique<Pickle>(next("the object's pickle"));
  const Pickle keys = next("the pickle of the storages' keys");
  read_older_storages(keys, position);
}

void TorchBytes::read_older_storages(const Pickle& keys, std::uint64_t position) {
  std::map<std::string, const PickleStorage*, std::less<>> described;
  for (const PickleValue& value : pickle_->values())
    if (const auto* storage = std::get_if<PickleStorage>(&value)) described.emplace(storage->key, storage);
  const auto* list = std::get_if<PickleList>(&keys.root());
  if (list == nullptr) refuse(file_, "the storages' keys are " + describe(keys.root()), "a list");
  ByteCursor cursor(bytes_, position);
  for (const PickleIndex item : list->items) {
    const auto* key = std::get_if<std::string>(&keys.at(item));
    const auto found = key == nullptr ? described.end() : described.find(*key);
    if (found == described.end())
      refuse(file_, "a storage " + describe(keys.at(item)) + " that the object lacks", "its own storages");
    const std::size_t size = std::max<std::size_t>(1, element_bytes(found->second->type));
    const auto elements = cursor.take<std::uint64_t>();
    if (!elements || *elements != found->second->elements || *elements > cursor.left() / size)
      refuse(file_, "the storage " + kernels::in_quotes(*key) + " is cut or has another size than announced",
             std::to_string(found->second->elements) + " elements");
    if (!storages_.emplace(*key, bytes_.subspan(cursor.position(), *elements * size)).second)
      refuse(file_, "the storage " + kernels::in_quotes(*key) + " occurs twice", "each key once");
    cursor.skip(*elements * size);
  }
  if (cursor.left() != 0)
    refuse(file_, "has " + std::to_string(cursor.left()) + " bytes behind its last storage", "none");
}

std::string TorchBytes::form() const {
  std::set<std::string> devices;
  for (const PickleValue& value : pickle_->values())
    if (const auto* storage = std::get_if<PickleStorage>(&value)) devices.insert(storage->device);
  std::string text = archive_ ? "a zip archive" : "the form before PyTorch 1.6";
  if (archive_ && archive_->has(prefix_ + "byteorder")) text += " of PyTorch 2";
  text += ", pickle protocol " + std::to_string(pickle_->protocol()) + ", storages of";
  std::size_t shown = 0;
  for (const std::string& device : devices)
    if (++shown <= 4) text += (shown > 1 ? ", " : " ") + kernels::in_quotes(device);
  return text + (devices.empty() ? " no device" : shown > 4 ? " and others" : "");
}

std::span<const std::byte> TorchBytes::storage_bytes(const PickleTensor& tensor,
                                                     const std::string& name) const {
  const auto& storage = std::get<PickleStorage>(pickle_->at(tensor.storage));
  std::span<const std::byte> data;
  if (archive_) {
    data = archive_->read(prefix_ + "data/" + storage.key);
  } else {
    const auto found = storages_.find(storage.key);
    if (found == storages_.end())
      refuse(file_, "tensor " + kernels::in_quotes(name) + " has a storage that the file lacks",
             "its storage");
    data = found->second;
  }
  const std::size_t size = std::max<std::size_t>(1, element_bytes(storage.type));
  if (data.size() / size != storage.elements || data.size() % size != 0)
    refuse(file_,
           "the storage of tensor " + kernels::in_quotes(name) + " has " + std::to_string(data.size()) +
               " bytes",
           std::to_string(storage.elements) + " elements of " + std::to_string(size) + " bytes");
  return data;
}

std::vector<float> TorchBytes::values(const PickleTensor& tensor, const std::string& name) const {
  const std::size_t size = element_bytes(tensor.type);
  if (size == 0)
    refuse(file_, "tensor " + kernels::in_quotes(name) + " is of " + std::string(word_of(tensor.type)),
           "float32, float64, float16, bfloat16, an integer type or bool");
  const auto data = storage_bytes(tensor, name);
  std::vector<float> values;
  values.reserve(elements_of(tensor));
  for_each_element(tensor, size, [&](std::uint64_t offset) {
    values.push_back(element_value(tensor.type, data.data() + offset));
  });
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    refuse(file_, "tensor " + kernels::in_quotes(name) + " has a value that is not finite in float32",
           "finite numbers");
  return values;
}

std::vector<std::int64_t> TorchBytes::integers(const PickleTensor& tensor, const std::string& name) const {
  if (!is_integer(tensor.type))
    refuse(file_, "tensor " + kernels::in_quotes(name) + " is of " + std::string(word_of(tensor.type)),
           "integers");
  const auto data = storage_bytes(tensor, name);
  std::vector<std::int64_t> values;
  values.reserve(elements_of(tensor));
  for_each_element(tensor, element_bytes(tensor.type), [&](std::uint64_t offset) {
    values.push_back(integer_value(tensor.type, data.data() + offset));
  });
  return values;
}

}  // namespace troupe::deploy
