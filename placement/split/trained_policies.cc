// Reads and writes the text file with the weights of the trained split policies, so that they can
// be kept in the repository.
#include "placement/split/trained_policies.h"

#include <charconv>
#include <cmath>
#include <span>
#include <stdexcept>

#include "placement/split/ppo.h"

namespace troupe::placement {
namespace {

constexpr std::string_view title = "troupe-split-policies 1", made_by = "made by: ";
constexpr std::size_t made_by_max = 400, word_max = 40;
constexpr float largest = 1e4F;  // maximum magnitude of a learned weight

void append(std::string& text, float number, bool ends_line) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  text.append(buffer, end).push_back(ends_line ? '\n' : ' ');
}

class PolicyParser {
 public:
  PolicyParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  [[noreturn]] void fail(std::string_view there, const std::string& expected) const {
    throw std::invalid_argument(where_ + ":" + std::to_string(line_) + ": there is \"" +
                                std::string(there.substr(0, word_max)) + "\"; expected " + expected);
  }
  std::string_view line() {
    if (at_ == text_.size()) fail("", "another line");
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = std::min(end + 1, text_.size());
    ++line_;
    return line;
  }
  std::string_view word() {
    skip();
    const std::size_t end = std::min(text_.find_first_of(" \n", at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    return word;
  }
  template <class Number>
  Number number(Number least, Number most) {
    const std::string_view word = this->word();
    Number value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || !(value >= least && value <= most))
      fail(word, "a number from " + std::to_string(least) + " to " + std::to_string(most));
    return value;
  }
  void expect(std::string_view expected) {
    if (const std::string_view there = word(); there != expected) fail(there, std::string(expected));
  }
  void end() {
    skip();
    if (at_ != text_.size()) fail(text_.substr(at_), "the end");
  }

 private:
  void skip() {
    for (; at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n'); ++at_)
      line_ += text_[at_] == '\n';
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0, line_ = 1;
};

Mlp read_base(PolicyParser& words) {
  Mlp base = base_network();
  words.expect("base");
  for (const std::uint32_t width : base.widths()) words.expect(std::to_string(width));
  for (float& weight : base.weights()) weight = words.number(-largest, largest);
  return base;
}

Tree read_tree(PolicyParser& words) {
  Tree tree;
  for (std::uint8_t& value : tree.value)
    value = static_cast<std::uint8_t>(words.number<unsigned>(0, state_values - 1));
  for (float& threshold : tree.threshold) threshold = words.number(0.0F, 1.0F);
  for (float& leaf : tree.leaf) leaf = words.number(-1.0F, 1.0F);
  return tree;
}

}  // namespace

std::string policies_text(const TrainedPolicies& policies) {
  std::string text = std::string(title) + "\n" + std::string(made_by) + policies.made_by + "\nbase";
  for (const std::uint32_t width : policies.base.widths()) text += " " + std::to_string(width);
  text += "\n";
  const std::span<const float> weights = policies.base.weights();
  for (std::size_t i = 0; i < weights.size(); ++i)
    append(text, weights[i], i % 16 == 15 || i + 1 == weights.size());
  text += "trees " + std::to_string(policies.trees.trees.size()) + " ";
  append(text, policies.trees.base, true);
  for (const Tree& tree : policies.trees.trees) {
    for (const std::uint8_t value : tree.value) text += std::to_string(value) + " ";
    for (const float threshold : tree.threshold) append(text, threshold, false);
    for (std::size_t leaf = 0; leaf < Tree::leaves; ++leaf)
      append(text, tree.leaf[leaf], leaf + 1 == Tree::leaves);
  }
  return text;
}

TrainedPolicies parse_policies(std::string_view text, const std::string& where) {
  PolicyParser words(text, where);
  if (const std::string_view first = words.line(); first != title) words.fail(first, std::string(title));
  const std::string_view made = words.line();
  if (!made.starts_with(made_by) || made.size() > made_by_max)
    words.fail(made, "\"made by: \" and a command");
  TrainedPolicies policies{std::string(made.substr(made_by.size())), read_base(words), {}};
  words.expect("trees");
  const auto count = words.number<std::size_t>(0, BoostedTrees::trees_max);
  policies.trees.base = words.number(0.0F, 1.0F);
  for (std::size_t t = 0; t < count; ++t) policies.trees.trees.push_back(read_tree(words));
  words.end();
  return policies;
}

}  // namespace troupe::placement
