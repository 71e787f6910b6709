// Loads the versions of a model for a rollout. One with another prompt form than the served one is refused.
#include "deploy/node/model_versions.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "deploy/node/prompt_file.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {
namespace {

bool same_towers(const std::vector<Tower>& a, const std::vector<Tower>& b) {
  return std::ranges::equal(a, b, [](const Tower& one, const Tower& other) {
    return one.events_max == other.events_max && one.action_min == other.action_min;
  });
}

// Reads the form that a node would serve if it started with the model of this directory.
PromptForm form_of(const ModelFamily& family, const std::filesystem::path& directory, const Config& config) {
  const ModelFacts facts = family.describe(directory, config);
  const kernels::Vocabulary vocabulary = read_vocabulary_if_any(directory, facts.limits);
  const std::unique_ptr<const Tokenizer> tokenizer = read_tokenizer_if_any(directory, facts.limits);
  const std::string& file = config.model.prompt;
  return read_prompt_form(directory, file.empty() ? std::nullopt : std::optional<std::filesystem::path>(file),
                          facts, vocabulary, tokenizer.get());
}

void reject_if_other_form(const ModelFamily& family, const std::filesystem::path& directory,
                          const Config& config, const PromptForm& served) {
  const std::string differences = form_differences(form_of(family, directory, config), served);
  if (!differences.empty())
    kernels::throw_load_error(directory, "its prompt form differs from the served one in " + differences,
                              "the served form, which routers keep until they are restarted; another form "
                              "needs nodes that start with this model (model.directory)");
}

}  // namespace

std::string form_differences(const PromptForm& form, const PromptForm& served) {
  std::string names;
  const auto add = [&](bool differs, const char* name) {
    if (differs) names.append(names.empty() ? "" : ", ").append(name);
  };
  const bool behind_each = form.scores_each() && served.scores_each();
  add(form.system != served.system, behind_each ? "instruction" : "system");
  add(form.user != served.user, "user");
  add(form.instruction != served.instruction, "instruction");
  add(form.discriminant != served.discriminant, "discriminant");
  add(form.event != served.event, "history_item");
  add(form.item != served.item || form.score != served.score || form.words_lead != served.words_lead ||
          form.item_text != served.item_text,
      "candidate");
  add(form.yes != served.yes, "yes");
  add(form.no != served.no, "no");
  add(form.events_max != served.events_max, behind_each ? "max_history" : "events_max");
  add(form.arrangements != served.arrangements, "arrangements");
  add(form.interchangeable != served.interchangeable, "interchangeable");
  add(form.normalised != served.normalised, "normalised");
  add(form.token_features != served.token_features, "features of tokens");
  add(!same_towers(form.towers, served.towers), "towers");
  add(form.scenarios != served.scenarios, "scenarios");
  add(form.tasks != served.tasks, "tasks");
  add(form.next_items != served.next_items, "next items");
  add(form.temperature != served.temperature, "temperature");
  add(form.searches_items != served.searches_items, "searches of items");
  add(form.whole_history != served.whole_history, "whole history");
  add(form.positions_max < served.positions_max, "positions");
  add(form.vocabulary < served.vocabulary, "vocabulary");
  return names;
}

actors::ComputePort::Loader version_loader(std::shared_ptr<VersionFolder> versions, const Config& config,
                                           const PromptForm& served, WrapVersion wrap) {
  if (!versions) return {};
  return
      [versions = std::move(versions), config, served, wrap = std::move(wrap)](const std::string& version) {
        const VersionFolder::OpenedVersion opened = versions->open(version);
        reject_if_other_form(*opened.family, opened.directory, config, served);
        return actors::LoadedModel(opened.model.engine(wrap(version)).executor, opened.model.make_assets);
      };
}

}  // namespace troupe::deploy
