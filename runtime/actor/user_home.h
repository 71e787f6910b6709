#pragma once
// Owner key of a user's blocks, and the hash by which the user's home is found among the workers
// (placement/assignment/homes.h). Every process computes the same hash: a router from a request, a
// KV-cache worker that leaves from the owner of a block.
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

// Returns the owner key of a user's blocks. It begins with the tenant's length in bytes, so that no
// two users share a key.
std::string owner_of_user(std::string_view tenant, std::string_view user);
std::uint64_t user_hash(std::string_view tenant, std::string_view user);
// Returns the hash of an owner key, which begins with its model's name where there are several
// models. Other owners have a hash, too.
std::uint64_t owner_hash(std::string_view owner);

}  // namespace troupe
