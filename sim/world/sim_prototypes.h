#pragma once
// Prototypes of a simulated cluster: an asset of one model version, the same on all nodes
// (kernels/decoder/prototypes.h). Prototypes exist for two thirds of a token's positions.
#include <string>
#include <utility>

#include "runtime/actor/prompt_form.h"
#include "sim/base/random.h"

namespace troupe::sim {

class SimPrototypes final : public PrototypeSet {
 public:
  SimPrototypes(std::uint64_t seed, std::string model_version)
      : seed_(seed), model_version_(std::move(model_version)), checksum_("prototypes of " + model_version_) {}

  bool has_prototype(Token token, std::uint32_t position) const override {
    return mix(seed_, static_cast<std::uint32_t>(token), position / 4) % 3 != 0;
  }
  const std::string& checksum() const override { return checksum_; }
  const std::string& model_version() const override { return model_version_; }

 private:
  const std::uint64_t seed_;
  const std::string model_version_, checksum_;
};

}  // namespace troupe::sim
