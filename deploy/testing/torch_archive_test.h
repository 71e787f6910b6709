#pragma once
// Writes files of torch.save for tests: zip archives, pickles and storages, whole or wrong on purpose.
#include <zlib.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/base/float_formats.h"

namespace troupe::deploy {

template <class Number>
std::string bytes_of_number(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

template <class Number>
std::string bytes_of_numbers(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

inline std::string half_bytes(const std::vector<float>& numbers, bool brain) {
  std::string bytes;
  for (const float number : numbers)
    bytes += bytes_of_number(brain ? kernels::to_bf16(number) : kernels::to_f16(number));
  return bytes;
}

// One entry of an archive, and what is wrong with it.
struct ZipPart {
  std::string name, data;
  std::string local_name = {};  // empty: the name
  std::uint16_t method = 0, flags = 0;
  std::uint64_t announced = UINT64_MAX;  // size in the directory; UINT64_MAX: the data's
  std::uint32_t checksum_added = 0;
  bool wide = false;           // sizes and offset in the extra field of zip64
  bool over_previous = false;  // has the previous entry's header and data
};

struct ZipFile {
  std::vector<ZipPart> parts;
  bool wide_end = false;        // a zip64 end record
  std::string before_end = {};  // bytes of the directory behind its entries
  std::string comment = {};

  std::string bytes() const {
    std::string file, directory;
    std::uint64_t header = 0;
    for (const ZipPart& part : parts) {
      if (!part.over_previous) header = file.size(), file += local(part);
      directory += listed(part, header);
    }
    directory += before_end;
    const std::uint64_t at = file.size();
    file += directory;
    if (wide_end) {
      const std::uint64_t end64 = file.size();
      file += bytes_of_number(std::uint32_t{0x06064b50}) + bytes_of_number(std::uint64_t{44}) +
              std::string(12, '\0') + bytes_of_number(std::uint64_t{parts.size()}) +
              bytes_of_number(std::uint64_t{parts.size()}) +
              bytes_of_number(static_cast<std::uint64_t>(directory.size())) + bytes_of_number(at);
      file += bytes_of_number(std::uint32_t{0x07064b50}) + std::string(4, '\0') + bytes_of_number(end64) +
              bytes_of_number(std::uint32_t{1});
    }
    const auto count = static_cast<std::uint16_t>(wide_end ? 0xffff : parts.size());
    file += bytes_of_number(std::uint32_t{0x06054b50}) + std::string(4, '\0') + bytes_of_number(count) +
            bytes_of_number(count) +
            bytes_of_number(wide_end ? UINT32_MAX : static_cast<std::uint32_t>(directory.size())) +
            bytes_of_number(wide_end ? UINT32_MAX : static_cast<std::uint32_t>(at)) +
            bytes_of_number(static_cast<std::uint16_t>(comment.size())) + comment;
    return file;
  }

 private:
  static std::uint32_t checksum(const ZipPart& part) {
    return static_cast<std::uint32_t>(
               crc32_z(0, reinterpret_cast<const Bytef*>(part.data.data()), part.data.size())) +
           part.checksum_added;
  }
  static std::string local(const ZipPart& part) {
    const std::string& name = part.local_name.empty() ? part.name : part.local_name;
    const std::string padding(6, 'Z');  // as torch.save aligns data
    return bytes_of_number(std::uint32_t{0x04034b50}) + std::string(22, '\0') +
           bytes_of_number(static_cast<std::uint16_t>(name.size())) +
           bytes_of_number(static_cast<std::uint16_t>(padding.size())) + name + padding + part.data;
  }
  static std::string listed(const ZipPart& part, std::uint64_t header) {
    const std::uint64_t size = part.announced == UINT64_MAX ? part.data.size() : part.announced;
    const auto narrow = [&](std::uint64_t number) {
      return bytes_of_number(part.wide ? UINT32_MAX : static_cast<std::uint32_t>(number));
    };
    std::string extra;
    if (part.wide)
      extra = bytes_of_number(std::uint16_t{1}) + bytes_of_number(std::uint16_t{24}) + bytes_of_number(size) +
              bytes_of_number(size) + bytes_of_number(header);
    return bytes_of_number(std::uint32_t{0x02014b50}) + std::string(4, '\0') + bytes_of_number(part.flags) +
           bytes_of_number(part.method) + std::string(4, '\0') + bytes_of_number(checksum(part)) +
           narrow(size) + narrow(size) + bytes_of_number(static_cast<std::uint16_t>(part.name.size())) +
           bytes_of_number(static_cast<std::uint16_t>(extra.size())) + std::string(10, '\0') +
           narrow(header) + part.name + extra;
  }
};

// Steps of a pickle in protocol 2.
inline const std::string pickle_begin = "\x80\x02";
inline std::string pickled(std::string_view text) {
  return "X" + bytes_of_number(static_cast<std::uint32_t>(text.size())) + std::string(text);
}
inline std::string pickled(std::int64_t number) {
  if (number >= 0 && number < 256) return "K" + bytes_of_number(static_cast<std::uint8_t>(number));
  if (number >= INT32_MIN && number <= INT32_MAX)
    return "J" + bytes_of_number(static_cast<std::int32_t>(number));
  return "\x8a\x08" + bytes_of_number(number);
}
inline std::string pickled_name(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
inline std::string pickled_tuple(const std::vector<std::int64_t>& numbers) {
  std::string steps = "(";
  for (const std::int64_t number : numbers) steps += pickled(number);
  return steps + "t";
}

// A tensor of a state dictionary, with a storage of its own unless `key` names another's.
struct TestTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string data;
  std::string storage_class = "FloatStorage";
  std::vector<std::int64_t> strides = {};  // empty: row-major
  std::int64_t offset = 0;
  std::string device = "cpu";
  std::int64_t elements = -1;  // of the storage; -1: as many as the data has
  std::string key = {};
};

inline TestTensor float_tensor(std::string name, std::vector<std::int64_t> shape,
                               const std::vector<float>& values) {
  return {std::move(name), std::move(shape), bytes_of_numbers(values)};
}

inline std::int64_t storage_element_bytes(std::string_view storage_class) {
  if (storage_class == "DoubleStorage" || storage_class == "LongStorage") return 8;
  if (storage_class == "FloatStorage" || storage_class == "IntStorage") return 4;
  return storage_class == "HalfStorage" || storage_class == "BFloat16Storage" ||
                 storage_class == "ShortStorage"
             ? 2
             : 1;
}

inline std::string pickled_tensor(const TestTensor& tensor, const std::string& key) {
  const std::int64_t size = storage_element_bytes(tensor.storage_class);
  const std::int64_t elements =
      tensor.elements >= 0 ? tensor.elements : static_cast<std::int64_t>(tensor.data.size()) / size;
  std::vector<std::int64_t> strides = tensor.strides;
  if (strides.empty() && !tensor.shape.empty()) {
    strides.assign(tensor.shape.size(), 1);
    for (std::size_t i = strides.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * tensor.shape[i + 1];
  }
  return pickled_name("torch._utils", "_rebuild_tensor_v2") + "((" + pickled("storage") +
         pickled_name("torch", tensor.storage_class) + pickled(key) + pickled(tensor.device) +
         pickled(elements) + "tQ" + pickled(tensor.offset) + pickled_tuple(tensor.shape) +
         pickled_tuple(strides) + "\x89" + pickled_name("collections", "OrderedDict") + ")RtR";
}

// Returns the pickle of {"epoch": 3, "model_state_dict": OrderedDict(tensors)}. The storages have the keys
// 0, 1, …
inline std::string pickled_state(const std::vector<TestTensor>& tensors) {
  std::string steps = pickle_begin + "}(" + pickled("epoch") + pickled(3) + pickled("model_state_dict") +
                      pickled_name("collections", "OrderedDict") + ")R(";
  for (std::size_t i = 0; i < tensors.size(); ++i)
    steps += pickled(tensors[i].name) +
             pickled_tensor(tensors[i], tensors[i].key.empty() ? std::to_string(i) : tensors[i].key);
  return steps + "u}" + pickled("_metadata") + "}sbu.";
}

inline ZipFile torch_parts(const std::vector<TestTensor>& tensors) {
  ZipFile file;
  file.parts.push_back({"archive/data.pkl", pickled_state(tensors)});
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].key.empty()) file.parts.push_back({"archive/data/" + std::to_string(i), tensors[i].data});
  file.parts.push_back({"archive/version", "3\n"});
  return file;
}

inline std::string torch_archive(const std::vector<TestTensor>& tensors) {
  return torch_parts(tensors).bytes();
}

// The form before PyTorch 1.6: pickles, and then the storages.
inline std::string older_torch_file(const std::vector<TestTensor>& tensors) {
  std::string state = pickled_state(tensors);
  const std::string magic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12);
  std::string file = pickle_begin + magic + "." + pickle_begin + pickled(1001) + "." + pickle_begin + "}" +
                     pickled("little_endian") + "\x88s." + state + pickle_begin + "](";
  std::string storages;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].key.empty()) continue;
    file += pickled(std::to_string(i));
    const auto elements =
        static_cast<std::int64_t>(tensors[i].data.size()) / storage_element_bytes(tensors[i].storage_class);
    storages += bytes_of_number(elements) + tensors[i].data;
  }
  return file + "e." + storages;
}

}  // namespace troupe::deploy
