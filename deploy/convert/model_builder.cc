// Builds a converted model and its report.
#include "deploy/convert/model_builder.h"

#include <utility>

#include "kernels/checkpoint/json_file.h"
#include "kernels/checkpoint/safetensors.h"

namespace troupe::deploy {
namespace {

std::string joined_names(const std::vector<std::string>& names, std::size_t shown_max) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < shown_max; ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() > shown_max ? text + " and " + std::to_string(names.size() - shown_max) + " more"
                                  : text;
}

}  // namespace

void ModelBuilder::copy(std::string_view from, const std::string& to, const TensorShape& shape,
                        std::string_view why) {
  add(to, shape, tensors_.take(from, shape, why), "");
  report().taken.push_back(to + " " + kernels::shape_text(shape) + " from " + std::string(from));
}

void ModelBuilder::transpose(std::string_view from, const std::string& to, std::uint64_t rows,
                             std::uint64_t columns, std::string_view why) {
  add(to, {columns, rows}, transposed(tensors_.take(from, {rows, columns}, why), rows, columns),
      to + " " + kernels::shape_text(TensorShape{columns, rows}) + " from " + std::string(from) +
          " transposed");
}

void ModelBuilder::add(const std::string& to, TensorShape shape, std::vector<float> values,
                       const std::string& how) {
  model_.tensors.push_back({to, std::move(shape), std::move(values)});
  if (!how.empty()) report().transposed.push_back(how);
}

void ModelBuilder::drop(std::string_view name, std::string_view reason) {
  if (!tensors_.has(name)) return;
  tensors_.drop(name);
  report().dropped.push_back(tensors_.prefix() + std::string(name) + ": " + std::string(reason));
}

ConvertedModel ModelBuilder::finish(std::string_view code) {
  if (const auto left = tensors_.left(); !left.empty())
    kernels::throw_load_error(
        tensors_.file().path(), "has tensors that are not of this model: " + joined_names(left, 6),
        "the tensors of " + std::string(code) + " with the bindings of " + settings_.path().string());
  for (const std::string& name : tensors_.besides())
    report().dropped.push_back(name + ": not part of the model");
  if (const auto names = settings_.without_effect(); !names.empty())
    report().dropped.push_back("bindings of training: " + joined_names(names, 100));
  if (tensors_.rounded() > 0)
    report().assumed.push_back("float32 is enough for " + std::to_string(tensors_.rounded()) +
                               " tensors of float64, which are rounded");
  for (const std::string& text : settings_.assumed())
    report().assumed.push_back(text + " (the code's default; the configuration has no such binding)");
  report().unknown = settings_.unknown();
  return std::move(model_);
}

}  // namespace troupe::deploy
