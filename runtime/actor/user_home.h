#pragma once
// Whose a user's blocks are, and by which number his home is found among the workers
// (placement/assignment/homes.h). Every process comes to the same: routers from a request, a KV-cache worker
// that leaves from the owner of a block.
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

// The owner of his blocks: the tenant's bytes are counted before it, so that no two users share a key.
std::string owner_of_user(std::string_view tenant, std::string_view user);
std::uint64_t user_hash(std::string_view tenant, std::string_view user);
// Of an owner, which where there are several models has its model's name before it. What is no user's key has
// a number, too.
std::uint64_t owner_hash(std::string_view owner);

}  // namespace troupe
