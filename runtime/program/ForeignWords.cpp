// The lookup of flags and values of other frameworks.
#include "runtime/program/ForeignWords.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <initializer_list>

namespace shale::rt {

namespace {
constexpr ForeignFlag rows[] = {
#define FRAMEWORK(name)
#define SHALEC_FLAGS(names)
#define TRAIN_FLAGS(names)
#define VALUE(flags, values, ours)
#define FLAG(names, shalec, train) {names, shalec, train, ""},
#define UNNEEDED(names, why) {names, "", "", "is not needed: " why},
#define MISSING(names, why) {names, "", "", "does not exist in Shale: " why},
#include "runtime/program/ForeignWords.def"
#undef FLAG
#undef UNNEEDED
#undef MISSING
#undef VALUE
};

constexpr struct {
  const char *flags, *values, *ours;
} values[] = {
#define FLAG(names, shalec, train)
#define UNNEEDED(names, why)
#define MISSING(names, why)
#define VALUE(flags, values, ours) {flags, values, ours},
#include "runtime/program/ForeignWords.def"
#undef SHALEC_FLAGS
#undef TRAIN_FLAGS
#undef VALUE
};

constexpr const char *shalecFlags =
#define VALUE(flags, values, ours)
#define SHALEC_FLAGS(names) names
#define TRAIN_FLAGS(names)
#include "runtime/program/ForeignWords.def"
#undef SHALEC_FLAGS
#undef TRAIN_FLAGS
    ;
constexpr const char *trainFlags =
#define SHALEC_FLAGS(names)
#define TRAIN_FLAGS(names) names
#include "runtime/program/ForeignWords.def"
    ;

char plain(char c) {
  return c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

/// Whether a list of the table has a plain word.
bool lists(const char *names, const std::string &word) {
  while (!word.empty()) {
    size_t size = std::strcspn(names, ",|");
    if (size == word.size() &&
        std::equal(word.begin(), word.end(), names, [](char x, char y) { return x == plain(y); }))
      return true;
    if (!names[size])
      return false;
    names += size + 1;
  }
  return false;
}

/// Whether a list of the table has a start of a plain word, such as "fp8_*" of "fp8-margin".
bool listsStart(const char *names, const std::string &word) {
  for (size_t end = word.find('-'); end != std::string::npos; end = word.find('-', end + 1))
    if (lists(names, word.substr(0, end + 1) + "*"))
      return true;
  return false;
}

template <typename Test> const ForeignFlag *firstRow(Test test) {
  const ForeignFlag *row = std::find_if(std::begin(rows), std::end(rows), test);
  return row == std::end(rows) ? nullptr : row;
}

const ForeignFlag *rowOf(const std::string &word) {
  return firstRow([&](const ForeignFlag &row) { return lists(row.names, word); });
}
} // namespace

std::string plainWord(std::string word) {
  word.erase(0, std::min(word.find_first_not_of('-'), word.size()));
  std::transform(word.begin(), word.end(), word.begin(), plain);
  return word;
}

FoundFlag findForeignFlag(const std::string &typed,
                          const std::function<bool(const std::string &)> &isOwn) {
  std::string word = plainWord(typed.substr(0, typed.find('=')));
  if (word.empty() || word.find_first_of(",|*") != std::string::npos)
    return {};
  std::string last = word.substr(word.rfind('.') + 1);
  for (size_t at = 0; at != std::string::npos; at = word.find('.', at)) {
    at += at > 0;
    if (const ForeignFlag *row = rowOf(word.substr(at)))
      return {"", row};
  }
  if (isOwn(last))
    return {last};
  std::string rest = last;
  for (const char *prefix : {"fsdp-", "megatron-lm-", "parallelism-config-"})
    if (last.compare(0, std::strlen(prefix), prefix) == 0)
      rest = last.substr(std::strlen(prefix));
  if (const ForeignFlag *row = rowOf(rest))
    return {"", row};
  if (isOwn(rest))
    return {rest};
  // The innermost section first.
  for (size_t end = word.rfind('.'); end != std::string::npos && end > 0;
       end = word.rfind('.', end - 1)) {
    size_t before = word.rfind('.', end - 1);
    size_t start = before == std::string::npos ? 0 : before + 1;
    if (const ForeignFlag *row = rowOf(word.substr(start, end - start) + ".*"))
      return {"", row};
  }
  return {"", firstRow([&](const ForeignFlag &row) { return listsStart(row.names, rest); })};
}

std::string findForeignValue(const std::string &flag, const std::string &typed) {
  std::string value = plainWord(typed);
  value.erase(0, value.rfind('.') + 1); // torch.bfloat16
  for (const auto &row : values)
    if (lists(row.flags, flag) && lists(row.values, value))
      return row.ours;
  return "";
}

bool isShalecFlag(const std::string &name) { return lists(shalecFlags, name); }
bool isTrainFlag(const std::string &name) { return lists(trainFlags, name); }

std::string withPlainFlag(const std::string &argument,
                          const std::function<bool(const std::string &)> &isOwn) {
  size_t end = std::min(argument.find('='), argument.size());
  if (argument.compare(0, 2, "--") != 0 || isOwn(argument.substr(2, end - 2)))
    return argument;
  std::string plain = plainWord(argument.substr(0, end));
  return isOwn(plain) ? "--" + plain + argument.substr(end) : argument;
}

} // namespace shale::rt
