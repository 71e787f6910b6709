#pragma once
// The prompt form of a model as `troupe verify` reads and writes it: the file's members in their order, or
// those of the default form if there is no file.
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/checkpoint/vocabulary.h"
#include "runtime/actor/prompt_form.h"

namespace troupe::deploy {

struct FormFile {
  std::filesystem::path file;  // prompt.json of the model directory, or the file of --prompt
  bool exists = false;
  bool declares = false;  // it has the member "arrangements"
  std::string text;       // a JSON object; empty = there is no file
};

// Reads the file as it is. Throws kernels::LoadError.
FormFile read_form_file(const std::filesystem::path& file);

// Returns the text of a form file with these arrangements, and with `interchangeable` if it has more than
// one. All other members of `text` stay as they are, in their order. If `text` is empty, the form is that of
// `form`, whose tokens are written by their names where they have one.
std::string form_text(const std::string& text, const PromptForm& form, const kernels::Vocabulary& vocabulary,
                      std::span<const Arrangement> arrangements,
                      std::span<const Arrangement> interchangeable);

// Returns true if two texts of forms have the same members with the same values, in any order.
bool same_members(const std::string& one, const std::string& other);

// Returns what a form declares, in a sentence without its period: "the form declares item_first and
// user_first, interchangeable".
std::string describe_arrangements(const PromptForm& form);

}  // namespace troupe::deploy
