// The renaming of tensors by --init-map.
#ifndef SHALE_RUNTIME_CHECKPOINT_RENAMES_H
#define SHALE_RUNTIME_CHECKPOINT_RENAMES_H

#include <memory>
#include <string>
#include <vector>

namespace re2 {
class RE2;
}

namespace shale::rt {

class Renames {
public:
  /// Rules are OLD=NEW; the last '=' separates the two. OLD is a regular expression in RE2's
  /// syntax, which has no back references. Fails with exit code 64 for a malformed rule.
  explicit Renames(const std::vector<std::string> &rules);
  ~Renames();

  bool empty() const { return rules.empty(); }
  /// Applies the rules in order: OLD is matched at the start of a name, and the match is replaced
  /// by NEW, in which $1 is OLD's first group, $& the whole match and $$ a dollar sign. Stops when
  /// the name is empty. The time is linear in the length of the name.
  std::string apply(std::string name) const;

private:
  struct Rule {
    std::unique_ptr<re2::RE2> pattern;
    /// NEW, in parts: text, or the number of a group if `group` is not negative.
    struct Part {
      std::string text;
      int group = -1;
    };
    std::vector<Part> replacement;
  };
  std::vector<Rule> rules;
};

} // namespace shale::rt

#endif
