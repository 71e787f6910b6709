#pragma once
// Names the blocks that plans of one model reuse (runtime/actor/block_name.h). The name of the
// system prompt, on which all others depend, is computed once.
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "router/request/prompt.h"
#include "runtime/actor/block_name.h"

namespace troupe::router {

class BlockNames {
 public:
  // `names_catalog`: the block names stored with the catalog's items belong to this model.
  BlockNames(const PromptForm& form, NameContext context, bool names_catalog = true);

  const NameContext& context() const { return context_; }
  const std::string& model_version() const { return context_.model_version; }
  const std::optional<BlockName>& system() const { return system_; }  // nullopt without a system prompt
  // Returns the name of an item block that sees the system prompt and begins after it.
  BlockName item(std::span<const Token> tokens) const { return after_system("", tokens); }
  BlockName item(const ItemView& item) const { return names_catalog_ ? item.block : this->item(item.tokens); }
  BlockName user(std::string_view tenant, const Tokens& tokens) const;
  // Returns the name of a history part that sees everything before it; `before` names the last
  // block before it.
  BlockName user_after(std::string_view tenant, const BlockName& before, const Tokens& tokens,
                       std::int32_t start) const;
  // Returns the name of a run of a user's events, with their features, after earlier such runs.
  BlockName events(std::string_view tenant, const Tokens& tokens, std::span<const std::int64_t> features,
                   std::int32_t start, std::span<const BlockName> before) const;
  // Returns the name of a history event that can be reused at any position. It is computed after
  // the system prompt, or alone at position 0.
  BlockName event(std::string_view tenant, const Tokens& tokens, bool behind_system) const;
  // Returns the name of an item that sees nothing and begins at position 0, so it can be reused at
  // any position.
  BlockName item_alone(std::span<const Token> tokens) const {
    return block_name(context_, "", tokens, 0, {});
  }

 private:
  BlockName after_system(std::string_view salt, std::span<const Token> tokens) const;

  NameContext context_;
  std::int32_t system_length_;
  std::optional<BlockName> system_;
  bool names_catalog_;
};

}  // namespace troupe::router
