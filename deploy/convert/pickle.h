#pragma once
// The pickles of torch.save, read as data. A pickle is a program that can call any function of Python;
// this reader knows only the steps and names that dictionaries of tensors need, and calls nothing.
// Every other name is refused with its position. Values are kept in a table and refer to each other by
// number, so that neither depth nor sharing costs memory. The table is bounded (`values_max`), and so is
// a pickle (`bytes_max`).
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "deploy/convert/tensor_type.h"
#include "kernels/base/errors.h"

namespace troupe::deploy {

using PickleIndex = std::uint32_t;  // a value of the table

struct PickleNone {};
struct PickleBytes {
  std::string bytes;
};
struct PickleList {  // a list or a tuple
  std::vector<PickleIndex> items;
  bool is_tuple = false;
};
struct PickleDict {
  std::vector<std::pair<PickleIndex, PickleIndex>> members;  // as written, the last of equal keys counts
};
struct PickleGlobal {  // a name of a module, never its value
  std::string name;    // "torch._utils._rebuild_tensor_v2"
};
struct PickleStorage {
  std::string key, device;
  TensorType type = TensorType::unknown;  // unknown: bytes without a type
  std::uint64_t elements = 0;             // bytes, if the type is unknown
};
struct PickleTensor {
  PickleIndex storage = 0;
  TensorType type = TensorType::unknown;
  std::uint64_t offset = 0;  // elements of the storage before the first
  std::vector<std::uint64_t> shape, strides;
};
// An object that is not looked into, such as a device.
struct PickleObject {
  std::string name;
};

using PickleValue = std::variant<PickleNone, bool, std::int64_t, double, std::string, PickleBytes, PickleList,
                                 PickleDict, PickleGlobal, PickleStorage, PickleTensor, PickleObject>;

class Pickle {
 public:
  static constexpr std::size_t values_max = 2'000'000, bytes_max = 64 << 20;

  // `file` is for errors, and `part` names what of the file is read: "data.pkl". Throws
  // kernels::LoadError.
  Pickle(const std::filesystem::path& file, std::string_view part, std::span<const std::byte> bytes);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& at(PickleIndex index) const { return values_.at(index); }
  const std::vector<PickleValue>& values() const { return values_; }
  // Returns the value of a member, or null if `dict` is no dictionary or lacks it.
  const PickleValue* member(const PickleValue& dict, std::string_view key) const;
  // Returns the members whose keys are texts, in their order.
  std::vector<std::pair<std::string, const PickleValue*>> members(const PickleValue& dict) const;
  // Returns the first key that is no text, or null.
  const PickleValue* other_key(const PickleValue& dict) const;
  // Number of bytes up to the end of the pickle; more may follow.
  std::uint64_t size() const { return size_; }
  int protocol() const { return protocol_; }

 private:
  std::vector<PickleValue> values_;
  PickleIndex root_ = 0;
  std::uint64_t size_ = 0;
  int protocol_ = 0;
};

// Describes a value in a few words, for a message.
std::string describe(const PickleValue& value);

}  // namespace troupe::deploy
