// Finds the model's tensors in a file of torch.save.
#include "deploy/convert/state_dict.h"

#include <algorithm>
#include <array>

#include "kernels/checkpoint/json_file.h"
#include "kernels/checkpoint/safetensors.h"

namespace troupe::deploy {
namespace {

constexpr std::array<std::string_view, 2> wrappers{"module.", "_orig_mod."};
constexpr std::uint64_t elements_per_byte_max = 4;
constexpr std::size_t names_shown_max = 8, member_name_max = 256;

std::string listed_names(const std::vector<std::pair<std::string, const PickleValue*>>& members) {
  std::string names;
  for (std::size_t i = 0; i < std::min(members.size(), names_shown_max); ++i)
    names += (i > 0 ? ", " : "") + kernels::in_quotes(members[i].first);
  return members.size() > names_shown_max ? names + ", …" : names;
}

// Names go into reports and errors as they are.
void check_member_name(const TorchBytes& file, std::string_view name) {
  const bool printable =
      std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 0x7f; });
  if (name.empty() || name.size() > member_name_max || !printable)
    kernels::throw_load_error(file.path(), "a member is called " + kernels::in_quotes(name),
                              "names of 1 to " + std::to_string(member_name_max) + " printable bytes");
}

// Cuts a wrapper's prefix off all names, if all have it.
std::string cut_prefix(std::vector<std::pair<std::string, const PickleTensor*>>& tensors) {
  std::string cut;
  for (bool again = !tensors.empty(); again;) {
    again = false;
    for (const std::string_view wrapper : wrappers) {
      const auto has = [&](const auto& tensor) { return tensor.first.starts_with(wrapper); };
      if (!std::ranges::all_of(tensors, has)) continue;
      for (auto& tensor : tensors) tensor.first.erase(0, wrapper.size());
      cut += wrapper;
      again = true;
    }
  }
  return cut;
}

}  // namespace

StateDict::StateDict(const TorchBytes& file) : file_(file) {
  const Pickle& pickle = file.pickle();
  const PickleValue* dict = &pickle.root();
  if (const PickleValue* const inner = pickle.member(*dict, "model_state_dict")) {
    for (const auto& [name, value] : pickle.members(*dict)) {
      check_member_name(file, name);
      if (name != "model_state_dict") besides_.push_back(name);
    }
    dict = inner;
  }
  if (const PickleValue* const key = pickle.other_key(*dict))
    kernels::throw_load_error(file.path(), "a member has the key " + describe(*key), "names of tensors");
  std::vector<std::pair<std::string, const PickleTensor*>> tensors;
  const auto members = pickle.members(*dict);
  for (const auto& [name, value] : members) {
    check_member_name(file, name);
    if (const auto* found = std::get_if<PickleTensor>(value))
      tensors.emplace_back(name, found);
    else if (std::holds_alternative<PickleObject>(*value) || name.ends_with("_extra_state"))
      objects_.push_back(name);
    else
      kernels::throw_load_error(file.path(),
                                "the member " + kernels::in_quotes(name) + " is " + describe(*value),
                                "a state_dict, whose members are tensors, or a file with model_state_dict");
  }
  if (tensors.empty())
    kernels::throw_load_error(file.path(), "has no tensors among " + listed_names(members),
                              "a state_dict, or a file with model_state_dict");
  prefix_ = cut_prefix(tensors);
  for (std::string& object : objects_)
    if (object.starts_with(prefix_)) object.erase(0, prefix_.size());
  for (auto& [name, found] : tensors) tensors_.insert_or_assign(std::move(name), found);
}

const PickleTensor& StateDict::tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    kernels::throw_load_error(file_.path(),
                              "the tensor " + kernels::in_quotes(prefix_ + std::string(name)) + " is missing",
                              "the tensors of the published code");
  return *found->second;
}

const TensorShape& StateDict::shape(std::string_view name) const { return tensor(name).shape; }

std::vector<float> StateDict::take(std::string_view name, const TensorShape& expected, std::string_view why) {
  const PickleTensor& found = tensor(name);
  if (found.shape != expected)
    kernels::throw_load_error(file_.path(),
                              "the tensor " + kernels::in_quotes(prefix_ + std::string(name)) +
                                  " has the shape " + kernels::shape_text(found.shape),
                              kernels::shape_text(expected) + ", which follows from " + std::string(why));
  if (taken_.emplace(name).second) {
    charge(found, name);
    rounded_ += found.type == TensorType::f64;
  }
  return file_.values(found, prefix_ + std::string(name));
}

std::vector<std::int64_t> StateDict::take_integers(std::string_view name) {
  const PickleTensor& found = tensor(name);
  if (taken_.emplace(name).second) charge(found, name);
  return file_.integers(found, prefix_ + std::string(name));
}

// Tensors may share a storage, so a small file could stand for a large model.
void StateDict::charge(const PickleTensor& tensor, std::string_view name) {
  std::uint64_t elements = 1;  // of one storage, so no product overflows
  for (const std::uint64_t size : tensor.shape) elements *= size;
  copied_ += elements;
  if (copied_ / elements_per_byte_max > file_.size())
    kernels::throw_load_error(
        file_.path(),
        "with the tensor " + kernels::in_quotes(prefix_ + std::string(name)) + " has " +
            std::to_string(copied_) + " elements that share storages",
        "at most " + std::to_string(elements_per_byte_max) + " elements a byte of the file");
}

std::vector<std::string> StateDict::left() const {
  std::vector<std::string> names;
  for (const auto& [name, found] : tensors_)
    if (!taken_.contains(name)) names.push_back(prefix_ + name);
  for (const std::string& name : objects_)
    if (!taken_.contains(name)) names.push_back(prefix_ + name);
  return names;
}

std::vector<std::string> StateDict::names() const {
  std::vector<std::string> names;
  for (const auto& [name, found] : tensors_) names.push_back(name);
  return names;
}

std::vector<float> transposed(const std::vector<float>& matrix, std::uint64_t rows, std::uint64_t columns) {
  std::vector<float> result(matrix.size());
  for (std::uint64_t row = 0; row < rows; ++row)
    for (std::uint64_t column = 0; column < columns; ++column)
      result[column * rows + row] = matrix[row * columns + column];
  return result;
}

}  // namespace troupe::deploy
