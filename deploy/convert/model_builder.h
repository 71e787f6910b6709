#pragma once
// Builds a converted model tensor by tensor and writes down what is done with each.
#include <functional>
#include <string>
#include <string_view>

#include "deploy/convert/converted_model.h"
#include "deploy/convert/gin_file.h"
#include "deploy/convert/state_dict.h"

namespace troupe::deploy {

class ModelBuilder {
 public:
  ModelBuilder(StateDict& tensors, GinReader& settings) : tensors_(tensors), settings_(settings) {}

  StateDict& tensors() { return tensors_; }
  GinReader& settings() { return settings_; }
  ConvertedModel& model() { return model_; }
  ConversionReport& report() { return model_.report; }

  // Take a tensor from the checkpoint as `to`. `why` names the bindings that its shape follows from.
  void copy(std::string_view from, const std::string& to, const TensorShape& shape, std::string_view why);
  void transpose(std::string_view from, const std::string& to, std::uint64_t rows, std::uint64_t columns,
                 std::string_view why);
  // Adds a tensor that was computed; `how` goes into the report, if it is not empty.
  void add(const std::string& to, TensorShape shape, std::vector<float> values, const std::string& how);
  // Leaves out a tensor if it is there.
  void drop(std::string_view name, std::string_view reason);

  // Completes the report, and refuses tensors that were neither taken nor dropped: the model computes
  // with something that this conversion does not know. Throws kernels::LoadError.
  ConvertedModel finish(std::string_view code);

 private:
  StateDict& tensors_;
  GinReader& settings_;
  ConvertedModel model_;
};

}  // namespace troupe::deploy
