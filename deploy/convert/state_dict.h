#pragma once
// The tensors of a checkpoint's model, taken one by one by name and shape, so that nothing is left over
// unnoticed.
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/convert/torch_file.h"

namespace troupe::deploy {

using TensorShape = std::vector<std::uint64_t>;

class StateDict {
 public:
  // Reads the members of "model_state_dict" of the file, or of the file's dictionary itself. The
  // prefixes "module." and "_orig_mod." of wrappers are cut off. Throws kernels::LoadError.
  explicit StateDict(const TorchBytes& file);

  const TorchBytes& file() const { return file_; }
  bool has(std::string_view name) const { return tensors_.contains(name); }
  // Returns the shape of a tensor. Throws kernels::LoadError if it is missing.
  const TensorShape& shape(std::string_view name) const;
  // Copies a tensor and marks it as taken. Throws kernels::LoadError if it is missing, has another shape
  // (`why` says what the shape follows from) or has values that are not finite.
  std::vector<float> take(std::string_view name, const TensorShape& expected, std::string_view why);
  std::vector<std::int64_t> take_integers(std::string_view name);
  void drop(std::string_view name) { taken_.emplace(name); }
  // Number of taken tensors whose numbers have more digits than float32.
  std::size_t rounded() const { return rounded_; }
  // Names of tensors and objects that were neither taken nor dropped.
  std::vector<std::string> left() const;
  std::vector<std::string> names() const;
  // Wrappers' prefixes that were cut off, and members of the file besides the model's tensors.
  const std::string& prefix() const { return prefix_; }
  const std::vector<std::string>& besides() const { return besides_; }
  // Members that are no tensors of this file, without the prefix: descriptions of tables that are sharded or
  // kept elsewhere, and the extra state of Transformer Engine.
  const std::vector<std::string>& objects() const { return objects_; }

 private:
  const PickleTensor& tensor(std::string_view name) const;
  void charge(const PickleTensor& tensor, std::string_view name);

  const TorchBytes& file_;
  std::map<std::string, const PickleTensor*, std::less<>> tensors_;
  std::set<std::string, std::less<>> taken_;
  std::uint64_t copied_ = 0;  // elements of the tensors that were taken
  std::size_t rounded_ = 0;
  std::string prefix_;
  std::vector<std::string> besides_, objects_;
};

// Returns `matrix`, of `rows` x `columns`, transposed.
std::vector<float> transposed(const std::vector<float>& matrix, std::uint64_t rows, std::uint64_t columns);

}  // namespace troupe::deploy
