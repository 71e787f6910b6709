// Computes the names of the blocks that a prompt reuses: hashes of the system prompt, the user's
// history or an item, with the model. Equal names allow reuse.
#include "router/request/block_names.h"

namespace troupe::router {

BlockNames::BlockNames(const PromptForm& form, NameContext context, bool names_catalog)
    : context_(std::move(context)),
      system_length_(static_cast<std::int32_t>(form.system.size())),
      names_catalog_(names_catalog) {
  if (!form.system.empty())
    system_ = block_name(context_, "", {form.system.data(), form.system.size()}, 0, {});
}

namespace {

// Returns a salt that no public name has, not even for the default tenant "".
std::string salt_of(std::string_view tenant) { return "tenant:" + std::string(tenant); }

}  // namespace

BlockName BlockNames::user(std::string_view tenant, const Tokens& tokens) const {
  return after_system(salt_of(tenant), {tokens.data(), tokens.size()});
}

BlockName BlockNames::events(std::string_view tenant, const Tokens& tokens,
                             std::span<const std::int64_t> features, std::int32_t start,
                             std::span<const BlockName> before) const {
  return block_name(context_, salt_of(tenant), {tokens.data(), tokens.size()}, start, before, features);
}

// The name before it stands for everything that the part sees, and the salt says so. A block that
// sees only that one block therefore has another name.
BlockName BlockNames::user_after(std::string_view tenant, const BlockName& before, const Tokens& tokens,
                                 std::int32_t start) const {
  const std::string salt = "history:" + std::string(tenant);
  return block_name(context_, salt, {tokens.data(), tokens.size()}, start, {&before, 1});
}

BlockName BlockNames::event(std::string_view tenant, const Tokens& tokens, bool behind_system) const {
  if (behind_system) return user(tenant, tokens);
  return block_name(context_, salt_of(tenant), {tokens.data(), tokens.size()}, 0, {});
}

BlockName BlockNames::after_system(std::string_view salt, std::span<const Token> tokens) const {
  std::span<const BlockName> sees;
  if (system_) sees = {&*system_, 1};
  return block_name(context_, salt, tokens, system_length_, sees);
}

}  // namespace troupe::router
