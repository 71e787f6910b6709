#pragma once
// Bindings of a gin file, the configuration of the trainers whose checkpoints are converted:
//   train_fn.item_embedding_dim = 50     # function.parameter = value
//   batch = 128                          # a macro, used as %batch
// Values are Python's numbers, texts, booleans, None and lists of these; a reference (@name) is kept as
// text, and a dictionary is read over. Nothing is executed or included. The last of several equal bindings
// counts, as in gin.
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/base/errors.h"

namespace troupe::deploy {

struct GinReference {
  std::string name;
};
struct GinNone {};
struct GinValue;
using GinList = std::vector<GinValue>;
struct GinValue {
  std::variant<GinNone, bool, std::int64_t, double, std::string, GinReference, GinList> value;
};

struct GinBinding {
  GinValue value;
  std::string text;  // of the value, as in the file
  std::uint64_t line = 0;
};

class GinFile {
 public:
  static constexpr std::size_t bytes_max = 1 << 20;

  // `file` is for errors. Throws kernels::LoadError.
  GinFile(std::filesystem::path file, std::string_view text);

  const std::filesystem::path& path() const { return file_; }
  // Keys: "function.parameter"; for a binding of a scope "scope/function.parameter".
  const std::map<std::string, GinBinding, std::less<>>& bindings() const { return bindings_; }
  const std::vector<std::string>& imports() const { return imports_; }

 private:
  std::filesystem::path file_;
  std::map<std::string, GinBinding, std::less<>> bindings_;
  std::vector<std::string> imports_;
};

GinFile read_gin_file(const std::filesystem::path& file);

// Reads bindings one by one, with the defaults of the code that would have read them. Remembers which
// were asked for, and which defaults were taken.
class GinReader {
 public:
  explicit GinReader(const GinFile& file) : file_(file) {}

  // All throw kernels::LoadError if the binding has another type or is out of range. Without a `code`
  // default the binding must be there.
  std::uint64_t integer(std::string_view name, std::optional<std::uint64_t> code, std::uint64_t least,
                        std::uint64_t most);
  double number(std::string_view name, std::optional<double> code, double least, double most);
  bool boolean(std::string_view name, std::optional<bool> code);
  std::string text(std::string_view name, std::optional<std::string> code);
  // Reads a list of texts or references ("@a/Table()" is "a/Table()").
  std::vector<std::string> names(std::string_view name);
  std::vector<std::uint64_t> integers(std::string_view name, std::uint64_t least, std::uint64_t most);
  std::optional<std::int64_t> maybe_integer(std::string_view name);
  bool has(std::string_view name) const { return file_.bindings().contains(name); }
  // Marks bindings that change nothing of a model that is served; "create_data_loader.*" is a function's.
  void ignore(std::string_view name) { ignored_.insert(std::string(name)); }

  const std::filesystem::path& path() const { return file_.path(); }
  // Throws kernels::LoadError with the file and line of a binding that is there.
  [[noreturn]] void fault(std::string_view name, const std::string& expected) const;

  const std::vector<std::string>& assumed() const { return assumed_; }  // "hstu_encoder.dqk = 64"
  std::vector<std::string> without_effect() const;                      // ignored bindings that are there
  std::vector<std::string> unknown() const;                             // neither read nor ignored
  // Refuses unknown parameters of a function that builds the model. Throws kernels::LoadError.
  void reject_unknown(std::string_view function) const;

 private:
  const GinBinding* take(std::string_view name, bool has_default);
  bool is_ignored(std::string_view name) const;
  void assume(std::string_view name, const std::string& value);

  const GinFile& file_;
  std::set<std::string, std::less<>> asked_, ignored_;
  std::vector<std::string> assumed_;
};

}  // namespace troupe::deploy
