// Regular expressions by RE2, whose time is linear.
#include "runtime/checkpoint/Renames.h"
#include "runtime/core/Error.h"

#include <re2/re2.h>

namespace shale::rt {

Renames::~Renames() = default;

Renames::Renames(const std::vector<std::string> &texts) {
  for (const std::string &text : texts) {
    size_t at = text.rfind('=');
    if (at == std::string::npos)
      fail(SHALE_EXIT_USAGE, "--init-map takes OLD=NEW, not '%s'", printable(text).c_str());
    Rule rule;
    rule.pattern = std::make_unique<re2::RE2>(text.substr(0, at), re2::RE2::Quiet);
    if (!rule.pattern->ok())
      fail(SHALE_EXIT_USAGE,
           "--init-map '%s': the part before '=' is not a regular expression (%s)",
           printable(text).c_str(), printable(rule.pattern->error()).c_str());
    rule.replacement.emplace_back();
    for (size_t i = at + 1; i < text.size(); ++i) {
      char next = i + 1 < text.size() ? text[i + 1] : '\0';
      if (text[i] != '$' || (next != '$' && next != '&' && (next < '0' || next > '9'))) {
        rule.replacement.back().text += text[i];
        continue;
      }
      ++i;
      if (next == '$') {
        rule.replacement.back().text += '$';
        continue;
      }
      int group = next == '&' ? 0 : next - '0';
      if (group > rule.pattern->NumberOfCapturingGroups())
        fail(SHALE_EXIT_USAGE, "--init-map '%s': the part before '=' has no group %d",
             printable(text).c_str(), group);
      rule.replacement.push_back({"", group});
      rule.replacement.emplace_back();
    }
    rules.push_back(std::move(rule));
  }
}

std::string Renames::apply(std::string name) const {
  for (const Rule &rule : rules) {
    re2::StringPiece groups[10];
    int count = 1 + std::min(9, rule.pattern->NumberOfCapturingGroups());
    if (!rule.pattern->Match(name, 0, name.size(), re2::RE2::ANCHOR_START, groups, count))
      continue;
    std::string result;
    for (const Rule::Part &part : rule.replacement)
      result += part.group < 0 ? part.text : std::string(groups[part.group]);
    result.append(name, groups[0].size());
    name = std::move(result);
    if (name.empty())
      return name;
  }
  return name;
}

} // namespace shale::rt
