// The lookup of flags and values of other frameworks.
#include "runtime/program/flags/ForeignWords.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <initializer_list>

namespace shale::rt {

namespace {
// A row is one text, whose fields end with a NUL. Four pointers would take 128 bytes of a program,
// most of them relocations, and one takes 32.

// NAMES SHALEC TRAIN WHY, where WHY is empty or begins with n (not needed) or m (missing).
constexpr const char *rows[] = {
#define FRAMEWORK(name)
#define TRAIN_FLAGS(names)
#define VALUE(flags, values, ours)
#define NOVALUE(flags, values, why)
#define FLAG(names, shalec, train) names "\0" shalec "\0" train "\0",
#define UNNEEDED(names, why) names "\0\0\0n" why,
#define MISSING(names, why) names "\0\0\0m" why,
#include "runtime/program/flags/ForeignWords.def"
#undef FLAG
#undef UNNEEDED
#undef MISSING
#undef VALUE
#undef NOVALUE
};

// FLAGS VALUES OURS WHY, where OURS or WHY is empty.
constexpr const char *values[] = {
#define FLAG(names, shalec, train)
#define UNNEEDED(names, why)
#define MISSING(names, why)
#define VALUE(flags, values, ours) flags "\0" values "\0" ours "\0",
#define NOVALUE(flags, values, why) flags "\0" values "\0\0" why,
#include "runtime/program/flags/ForeignWords.def"
#undef TRAIN_FLAGS
#undef VALUE
#undef NOVALUE
};

constexpr const char *shalecFlags =
#include "runtime/ShalecFlags.inc" // from lib/Options/Options.td
    ;
constexpr const char *trainFlags =
#define VALUE(flags, values, ours)
#define NOVALUE(flags, values, why)
#define TRAIN_FLAGS(names) names
#include "runtime/program/flags/ForeignWords.def"
    ;

/// The longest word that is looked up, in characters.
constexpr size_t longest = 200;

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

/// Whether a list of the table has a part of a plain word, such as "*lora*" of "use-lora-rank".
bool listsPart(const char *names, const std::string &word) {
  for (size_t begin = 0; begin <= word.size();
       begin = std::min(word.find('-', begin), word.size()) + 1)
    for (size_t end = begin; end < word.size();) {
      end = std::min(word.find('-', end + 1), word.size());
      if (lists(names, "*" + word.substr(begin, end - begin) + "*"))
        return true;
    }
  return false;
}

/// Returns the field of a row after this one.
const char *fieldAfter(const char *field) { return field + std::strlen(field) + 1; }

using Row = std::optional<ForeignFlag>;

/// Returns the first row in whose names `has` finds the word.
Row firstRow(bool (*has)(const char *names, const std::string &word), const std::string &word) {
  for (const char *names : rows)
    if (has(names, word)) {
      const char *shalec = fieldAfter(names), *train = fieldAfter(shalec), *why = fieldAfter(train);
      std::string answer = *why == 'n' ? "is not needed: " : "does not exist in Shale: ";
      return ForeignFlag{shalec, train, *why ? answer + (why + 1) : ""};
    }
  return std::nullopt;
}

Row rowOf(const std::string &word) { return firstRow(lists, word); }
} // namespace

std::string plainWord(std::string word) {
  word.erase(0, std::min(word.find_first_not_of('-'), word.size()));
  std::transform(word.begin(), word.end(), word.begin(), plain);
  return word;
}

/// The row of a section that has a pattern, such as "trl.**"; the innermost one first.
static Row rowOfSection(const std::string &word, const char *pattern) {
  for (size_t end = word.rfind('.'); end != std::string::npos && end > 0;
       end = word.rfind('.', end - 1)) {
    size_t before = word.rfind('.', end - 1);
    size_t start = before == std::string::npos ? 0 : before + 1;
    if (Row row = rowOf(word.substr(start, end - start) + pattern))
      return row;
  }
  return std::nullopt;
}

/// Returns the row of a start or a part of the last part of a word.
static Row rowOfPattern(const std::string &last) {
  Row row = firstRow(listsStart, last);
  return row ? row : firstRow(listsPart, last);
}

/// Returns `last` without a prefix of a launcher or its like.
static std::string withoutPrefix(const std::string &last,
                                 std::initializer_list<const char *> prefixes) {
  for (const char *prefix : prefixes)
    if (last.compare(0, std::strlen(prefix), prefix) == 0)
      return last.substr(std::strlen(prefix));
  return last;
}

FoundFlag findForeignFlag(const std::string &typed,
                          const std::function<bool(const std::string &)> &isOwn) {
  std::string word = plainWord(typed.substr(0, typed.find('=')));
  if (word.empty() || word.size() > longest || word.find_first_of(",|*") != std::string::npos)
    return {};
  if (Row row = rowOf(word))
    return {"", row};
  if (Row row = rowOfSection(word, ".**"))
    return {"", row};
  std::string last = word.substr(word.rfind('.') + 1);
  for (size_t dot = word.find('.'); dot != std::string::npos; dot = word.find('.', dot + 1)) {
    Row row = rowOf(word.substr(dot + 1));
    // A setting of this program's optimizer, such as --momentum, has a row for other programs.
    if (row && !(word.size() - dot - 1 == last.size() && isOwn(last)))
      return {"", row};
  }
  if (isOwn(last))
    return {last, {}};
  std::string rest = withoutPrefix(last, {"fsdp-", "megatron-lm-", "parallelism-config-"});
  if (Row row = rowOf(rest))
    return {"", row};
  if (isOwn(rest))
    return {rest, {}};
  if (Row row = rowOfSection(word, ".*"))
    return {"", row};
  std::string topic = withoutPrefix(rest, {"enable-", "use-", "with-"});
  if (Row row = rowOf(topic))
    return {"", row};
  if (isOwn(topic))
    return {topic, {}};
  if (Row row = rowOfPattern(rest))
    return {"", row};
  // What does not exist or is not needed cannot be turned off either.
  Row row = rowOf(withoutPrefix(rest, {"no-", "disable-"}));
  return {"", row && !row->why.empty() ? row : std::nullopt};
}

/// Returns the number of letters to insert, remove, change or swap with the next one.
static size_t distance(const std::string &a, const std::string &b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::string nearestWord(const std::string &word, const std::vector<std::string> &names) {
  constexpr size_t longestFlag = 64; // of Shale's
  if (word.size() < 3 || word.size() > longestFlag)
    return "";
  std::string best;
  size_t least = word.size() < 8 ? 2 : 3;
  for (const std::string &name : names) {
    size_t d = name.compare(0, word.size(), word) == 0 ? 0 : distance(word, name);
    if (d < least) {
      least = d;
      best = name;
    }
  }
  return best;
}

std::string answerToForeignValue(const std::string &flag, const std::string &typed) {
  std::string value = plainWord(typed);
  value.erase(0, value.rfind('.') + 1); // torch.bfloat16
  if (value.size() > longest || value.find_first_of(",|*") != std::string::npos)
    return "";
  for (auto *has : {lists, listsPart})
    for (const char *flags : values) {
      const char *listed = fieldAfter(flags), *ours = fieldAfter(listed), *why = fieldAfter(ours);
      if (lists(flags, flag) && has(listed, value))
        return "'" + typed + "'" +
               (*why ? std::string(" does not exist in Shale: ") + why
                     : ": in Shale, use --" + flag + " " + ours);
    }
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
