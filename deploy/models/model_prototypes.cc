// Opens the file of prototypes (cached keys and values that stand in for a history's tokens) as
// configured. Gives them to the router for its plans and to the executor that computes.
#include "deploy/models/model_prototypes.h"

#include <utility>

#include "deploy/models/engine.h"

namespace troupe::deploy {
namespace {

class ModelPrototypeSet final : public PrototypeSet {
 public:
  ModelPrototypeSet(std::shared_ptr<const kernels::Prototypes> prototypes, std::string model_version)
      : prototypes_(std::move(prototypes)), model_version_(std::move(model_version)) {}
  bool has_prototype(Token token, std::uint32_t position) const override {
    return prototypes_->find(token, position).has_value();
  }
  const std::string& checksum() const override { return prototypes_->checksum(); }
  const std::string& model_version() const override { return model_version_; }

 private:
  const std::shared_ptr<const kernels::Prototypes> prototypes_;
  const std::string model_version_;
};

}  // namespace

std::shared_ptr<const kernels::Prototypes> open_prototypes(const ModelSettings& settings,
                                                           const std::filesystem::path& model,
                                                           const std::string& model_version) {
  const std::string& file = settings.prototypes;
  if (file.empty()) return nullptr;
  if (!device_choice(settings).on_cpu())
    throw ConfigError("model.prototypes is " + file + "; expected it to be empty on a GPU");
  return std::make_shared<kernels::Prototypes>(file, kernels::read_decoder_config(model), model_version);
}

std::shared_ptr<const PrototypeSet> prototype_set_of(std::shared_ptr<const kernels::Prototypes> prototypes,
                                                     std::string model_version) {
  return std::make_shared<ModelPrototypeSet>(std::move(prototypes), std::move(model_version));
}

std::uint32_t prototype_columns(const ModelSettings& settings, const kernels::Prototypes& prototypes) {
  return settings.tables == ModelSettings::Tables::memory ? 0 : prototypes.columns();
}

std::unique_ptr<kernels::Executor> make_prototype_executor(
    const Config& config, std::unique_ptr<kernels::Executor> executor,
    std::shared_ptr<const kernels::Prototypes> prototypes, const WrapTable& wrap) {
  std::shared_ptr<kernels::EmbeddingTable> rows;
  if (wrap && prototype_columns(config.model, *prototypes) > 0)
    rows = wrap(std::make_shared<kernels::PrototypeRows>(prototypes));
  const kernels::DecoderOptions options = decoder_options(config);
  const kernels::KvLayout layout = kv_layout(prototypes->config(), options.page_tokens, options.kv);
  return kernels::with_prototypes(std::move(executor), layout, std::move(prototypes), std::move(rows));
}

}  // namespace troupe::deploy
