// The machine that reads a pickle: a stack, marks and a memo, as in Python's pickletools, for the steps
// that dictionaries of tensors need.
#include "deploy/convert/pickle.h"

#include <bit>
#include <optional>
#include <unordered_map>
#include <utility>

#include "deploy/convert/byte_cursor.h"
#include "deploy/convert/pickle_calls.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {
namespace {

constexpr std::size_t global_bytes_max = 256, long_bytes_max = 64;

class PickleMachine {
 public:
  PickleMachine(const std::filesystem::path& file, std::string_view part, std::span<const std::byte> bytes,
                std::vector<PickleValue>& values)
      : file_(file), part_(part), cursor_(bytes), values_(values), table_(values) {
    if (bytes.size() > Pickle::bytes_max)
      fail("is " + std::to_string(bytes.size()) + " bytes long",
           "at most " + std::to_string(Pickle::bytes_max));
  }

  PickleIndex run() {
    for (;;) {
      step_ = cursor_.position();
      const auto op = take<std::uint8_t>();
      if (op == '.') return popped();
      try {
        if (!simple(op) && !number(op) && !text(op) && !memo(op) && !container(op) && !object(op))
          fail("has the step " + std::to_string(op), "a step that dictionaries of tensors need");
      } catch (const PickleFault& fault) {
        fail("is wrong: " + fault.wrong, fault.expected);
      }
    }
  }
  std::uint64_t position() const { return cursor_.position(); }
  int protocol() const { return protocol_; }

 private:
  [[noreturn]] void fail(const std::string& wrong, const std::string& expected) const {
    kernels::throw_load_error(file_, part_ + " at byte " + std::to_string(step_) + " " + wrong, expected);
  }

  template <class Number>
  Number take() {
    const auto number = cursor_.take<Number>();
    if (!number) fail("ends early", "a whole pickle");
    return *number;
  }
  std::string_view take_text(std::uint64_t length) {
    const auto taken = cursor_.take_text(length);
    if (!taken) fail("ends early", "a whole pickle");
    return *taken;
  }

  bool push(PickleValue value) {
    charge(1);
    values_.push_back(std::move(value));
    stack_.push_back(static_cast<PickleIndex>(values_.size() - 1));
    return true;
  }
  // Counts elements that take memory beside the pickle's own bytes.
  void charge(std::size_t elements) {
    charged_ += elements;
    if (charged_ > Pickle::values_max)
      fail("has too many values", "at most " + std::to_string(Pickle::values_max));
  }
  PickleIndex popped() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back()))
      fail("takes a value that is not there", "a value on the stack");
    const PickleIndex index = stack_.back();
    stack_.pop_back();
    return index;
  }
  std::vector<PickleIndex> popped_to_mark() {
    if (marks_.empty()) fail("has no mark", "a mark before the values of a container");
    const std::vector<PickleIndex> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                                         stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  PickleIndex top() {
    const PickleIndex index = popped();
    stack_.push_back(index);
    return index;
  }

  bool simple(std::uint8_t op) {
    switch (op) {
      case 0x80:
        protocol_ = take<std::uint8_t>();
        if (protocol_ < 2 || protocol_ > 5)
          fail("has protocol " + std::to_string(protocol_), "a protocol from 2 to 5");
        return true;
      case 0x95:
        return take<std::uint64_t>(), true;  // frame
      case '(':
        charge(1);
        return marks_.push_back(stack_.size()), true;
      case 'N':
        return push(PickleNone{});
      case 0x88:
        return push(true);
      case 0x89:
        return push(false);
      default:
        return false;
    }
  }

  bool number(std::uint8_t op) {
    switch (op) {
      case 'K':
        return push(std::int64_t{take<std::uint8_t>()});
      case 'M':
        return push(std::int64_t{take<std::uint16_t>()});
      case 'J':
        return push(std::int64_t{take<std::int32_t>()});
      case 'G':
        return push(std::bit_cast<double>(__builtin_bswap64(take<std::uint64_t>())));
      case 0x8a:
        return long_integer();
      default:
        return false;
    }
  }

  // An integer in as few bytes as it needs; one of more than eight bytes is kept as bytes.
  bool long_integer() {
    const std::string_view bytes = take_text(take<std::uint8_t>());
    if (bytes.size() > long_bytes_max)
      fail("has a number of " + std::to_string(bytes.size()) + " bytes", "8");
    if (bytes.size() > 8) return push(PickleBytes{std::string(bytes)});
    std::uint64_t number = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<std::uint8_t>(bytes[i]);
    return push(static_cast<std::int64_t>(number));
  }

  bool text(std::uint8_t op) {
    switch (op) {
      case 'X':
      case 'T':
        return push(std::string(take_text(take<std::uint32_t>())));
      case 0x8c:
      case 'U':
        return push(std::string(take_text(take<std::uint8_t>())));
      case 0x8d:
        return push(std::string(take_text(take<std::uint64_t>())));
      case 'B':
        return push(PickleBytes{std::string(take_text(take<std::uint32_t>()))});
      case 'C':
        return push(PickleBytes{std::string(take_text(take<std::uint8_t>()))});
      case 0x8e:
        return push(PickleBytes{std::string(take_text(take<std::uint64_t>()))});
      default:
        return false;
    }
  }

  bool memo(std::uint8_t op) {
    switch (op) {
      case 'q':
        return keep(take<std::uint8_t>());
      case 'r':
        return keep(take<std::uint32_t>());
      case 0x94:
        return keep(static_cast<std::uint32_t>(memo_.size()));
      case 'h':
        return recall(take<std::uint8_t>());
      case 'j':
        return recall(take<std::uint32_t>());
      default:
        return false;
    }
  }
  bool keep(std::uint32_t number) {
    memo_[number] = top();
    if (memo_.size() > Pickle::values_max) fail("has too large a memo", "as many entries as values");
    return true;
  }
  bool recall(std::uint32_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) fail("recalls value " + std::to_string(number), "a value that it kept before");
    stack_.push_back(found->second);
    return true;
  }

  bool container(std::uint8_t op) {
    switch (op) {
      case '}':
        return push(PickleDict{});
      case ']':
        return push(PickleList{});
      case ')':
        return push(PickleList{{}, true});
      case 't':
        return push(PickleList{popped_to_mark(), true});
      case 0x85:
      case 0x86:
      case 0x87:
        return small_tuple(op - 0x84u);
      case 'a':
        return append({popped()});
      case 'e':
        return append(popped_to_mark());
      case 's':
        return set_one();
      case 'u':
        return set_items(popped_to_mark());
      default:
        return false;
    }
  }
  bool small_tuple(std::size_t size) {
    std::vector<PickleIndex> items(size);
    for (std::size_t i = size; i-- > 0;) items[i] = popped();
    return push(PickleList{std::move(items), true});
  }
  bool append(const std::vector<PickleIndex>& items) {
    auto* list = std::get_if<PickleList>(&values_[top()]);
    if (list == nullptr || list->is_tuple) fail("appends to " + describe(values_[top()]), "a list");
    list->items.insert(list->items.end(), items.begin(), items.end());
    return true;
  }
  bool set_one() {
    const PickleIndex value = popped(), key = popped();
    return set_items({key, value});
  }
  bool set_items(const std::vector<PickleIndex>& items) {
    if (items.size() % 2 != 0) fail("sets a key without a value", "keys with values");
    auto* dict = std::get_if<PickleDict>(&values_[top()]);
    if (dict == nullptr) fail("sets a member of " + describe(values_[top()]), "a dictionary");
    for (std::size_t i = 0; i < items.size(); i += 2) dict->members.emplace_back(items[i], items[i + 1]);
    return true;
  }

  bool object(std::uint8_t op) {
    switch (op) {
      case 'c': {
        const std::string module = line(), name = line();
        return global(module + "." + name);
      }
      case 0x93: {
        const PickleIndex name = popped(), module = popped();
        return global(text_at(module) + "." + text_at(name));
      }
      case 'R':
      case 0x81:
        return call();
      case 'Q':
        return push(table_.storage_of(popped()));
      case 'b':
        return build();
      default:
        return false;
    }
  }
  std::string line() {
    std::string text;
    for (char c; (c = static_cast<char>(take<std::uint8_t>())) != '\n';) {
      text += c;
      if (text.size() > global_bytes_max) fail("has a name without an end", "a name of a module");
    }
    return text;
  }
  const std::string& text_at(PickleIndex index) const {
    const auto* text = std::get_if<std::string>(&values_[index]);
    if (text == nullptr || text->size() > global_bytes_max)
      fail("names " + describe(values_[index]), "a name of a module");
    return *text;
  }
  bool global(std::string name) {
    if (is_known_global(name)) return push(PickleGlobal{std::move(name)});
    const bool sharded = name.starts_with("torch.distributed.") || name.starts_with("torchrec.");
    fail("names " + kernels::in_quotes(name) + ", which is no tensor, number, text or container",
         sharded ? "tensors that are whole, not sharded over processes"
                 : "a file of torch.save with a state_dict and nothing that runs code");
  }
  bool call() {
    const PickleIndex arguments = popped(), function = popped();
    const auto* named = std::get_if<PickleGlobal>(&values_[function]);
    const auto* list = std::get_if<PickleList>(&values_[arguments]);
    if (named == nullptr || list == nullptr)
      fail("calls " + describe(values_[function]), "a function by its name, with a tuple");
    PickleIndex same = 0;
    std::size_t copied = 0;
    auto made = table_.call(named->name, *list, same, copied);
    charge(copied);
    if (made) return push(std::move(*made));
    stack_.push_back(same);
    return true;
  }
  // The state of an object is left out: attributes of dictionaries (_metadata) and of opaque objects. That of
  // a tensor would replace its storage.
  bool build() {
    popped();
    const PickleValue& target = values_[top()];
    if (!std::holds_alternative<PickleDict>(target) && !std::holds_alternative<PickleObject>(target))
      fail("sets the state of " + describe(target), "a dictionary");
    return true;
  }

  const std::filesystem::path& file_;
  const std::string part_;
  ByteCursor cursor_;
  std::vector<PickleValue>& values_;
  const PickleTable table_;
  std::vector<PickleIndex> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, PickleIndex> memo_;
  std::uint64_t step_ = 0;  // byte of the step that is read
  std::size_t charged_ = 0;
  int protocol_ = 0;
};

// Describes each kind of value.
struct PickleWords {
  std::string operator()(const PickleNone&) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return std::to_string(value); }
  std::string operator()(const std::string& value) const { return kernels::in_quotes(value); }
  std::string operator()(const PickleBytes&) const { return "bytes"; }
  std::string operator()(const PickleList& value) const { return value.is_tuple ? "a tuple" : "a list"; }
  std::string operator()(const PickleDict&) const { return "a dictionary"; }
  std::string operator()(const PickleGlobal& value) const { return value.name; }
  std::string operator()(const PickleStorage&) const { return "a storage"; }
  std::string operator()(const PickleTensor&) const { return "a tensor"; }
  std::string operator()(const PickleObject& value) const { return "an object of " + value.name; }
};

}  // namespace

Pickle::Pickle(const std::filesystem::path& file, std::string_view part, std::span<const std::byte> bytes) {
  PickleMachine machine(file, part, bytes, values_);
  root_ = machine.run();
  size_ = machine.position();
  protocol_ = machine.protocol();
}

const PickleValue* Pickle::member(const PickleValue& dict, std::string_view key) const {
  const auto* found = std::get_if<PickleDict>(&dict);
  if (found == nullptr) return nullptr;
  for (std::size_t i = found->members.size(); i-- > 0;) {
    const auto* text = std::get_if<std::string>(&values_[found->members[i].first]);
    if (text != nullptr && *text == key) return &values_[found->members[i].second];
  }
  return nullptr;
}

std::vector<std::pair<std::string, const PickleValue*>> Pickle::members(const PickleValue& dict) const {
  std::vector<std::pair<std::string, const PickleValue*>> all;
  const auto* found = std::get_if<PickleDict>(&dict);
  if (found == nullptr) return all;
  for (const auto& [key, value] : found->members)
    if (const auto* text = std::get_if<std::string>(&values_[key])) all.emplace_back(*text, &values_[value]);
  return all;
}

const PickleValue* Pickle::other_key(const PickleValue& dict) const {
  if (const auto* found = std::get_if<PickleDict>(&dict))
    for (const auto& [key, value] : found->members)
      if (!std::holds_alternative<std::string>(values_[key])) return &values_[key];
  return nullptr;
}

std::string describe(const PickleValue& value) { return std::visit(PickleWords{}, value); }

}  // namespace troupe::deploy
