//===- ParseLimits.cpp - Refuses text that MLIR's parser does not survive -===//
#include "lib/Support/ParseLimits.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

namespace shale {

namespace {

/// One pass over a text, token by token as far as it matters.
class Scan {
public:
  explicit Scan(llvm::MemoryBufferRef buffer)
      : name(buffer.getBufferIdentifier()), text(buffer.getBuffer()),
        hasPositions(text.contains("llvm.insertvalue") || text.contains("llvm.extractvalue")) {}

  llvm::Error run() {
    while (at < text.size())
      if (llvm::Error error = scanToken())
        return error;
    return llvm::Error::success();
  }

private:
  /// An open bracket, and the operators since it or since the last separator in it.
  struct Level {
    char bracket;
    int64_t outer;     ///< operators of the expressions around it
    int64_t operators; ///< of the current expression, with those around it
  };

  llvm::Error error(size_t place, const llvm::Twine &what) const {
    StringRef before = text.take_front(place + 1);
    size_t line = before.count('\n') + 1, column = before.size() - (before.rfind('\n') + 1);
    return llvm::createStringError(name + ":" + llvm::Twine(line) + ":" + llvm::Twine(column) +
                                   ": " + what);
  }

  llvm::Error scanToken() {
    size_t start = at;
    char c = text[at];
    if (c == '"')
      return scanString();
    if (text.substr(at).starts_with("//")) {
      at = std::min(text.find('\n', at), text.size());
      return llvm::Error::success();
    }
    if (llvm::isAlnum(c) || c == '_') {
      at = std::min(
          text.find_if_not(
              [](char w) { return llvm::isAlnum(w) || w == '_' || w == '$' || w == '.'; }, at),
          text.size());
      StringRef word = text.slice(start, at);
      if (llvm::isDigit(c))
        return checkNumber(start, word);
      return word == "floordiv" || word == "ceildiv" || word == "mod" ? addOperator(start)
                                                                      : llvm::Error::success();
    }
    ++at;
    char next = at < text.size() ? text[at] : '\0';
    if (c == '-' && next == '>') { // an arrow ends an expression, and its > is no bracket
      ++at;
      levels.back().operators = levels.back().outer;
      return llvm::Error::success();
    }
    // >= <= == are no brackets.
    if (c == '(' || c == '[' || c == '{' || (c == '<' && next != '=')) {
      levels.push_back({c, levels.back().operators, levels.back().operators});
      if (int64_t(levels.size()) > kMaxParseDepth + 1)
        return error(start, "brackets nest more than " + llvm::Twine(kMaxParseDepth) + " deep");
    } else if (c == ')' || c == ']' || c == '}' || (c == '>' && next != '=')) {
      if (levels.size() > 1)
        levels.pop_back();
    } else if (c == ',' || c == ':' || c == '=') {
      levels.back().operators = levels.back().outer;
    } else if (c == '+' || c == '-' || c == '*') {
      return addOperator(start);
    }
    return llvm::Error::success();
  }

  llvm::Error scanString() {
    size_t start = at;
    for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
      if (text[at] == '\\')
        ++at;
    if (at >= text.size() || text[at] != '"')
      return error(start, "this string has no end");
    ++at;
    return llvm::Error::success();
  }

  llvm::Error addOperator(size_t start) {
    if (++levels.back().operators > kMaxParseOperators)
      return error(start,
                   "an expression has more than " + llvm::Twine(kMaxParseOperators) + " operators");
    return llvm::Error::success();
  }

  llvm::Error checkNumber(size_t start, StringRef word) const {
    uint64_t value = 0;
    char bracket = levels.back().bracket;
    // In [1, 2] and in array<i64: 1, 2>.
    bool isPosition = hasPositions && (bracket == '[' || bracket == '<') &&
                      llvm::all_of(word, [](char c) { return llvm::isHexDigit(c) || c == 'x'; });
    if (isPosition && (word.getAsInteger(0, value) ? word.size() > 9 : value > UINT32_MAX))
      return error(start, "a position must be less than 2^32; got " + word.take_front(40));
    return llvm::Error::success();
  }

  StringRef name, text;
  bool hasPositions;
  size_t at = 0;
  llvm::SmallVector<Level> levels{{'\0', 0, 0}}; // the first is the file
};

} // namespace

llvm::Error checkParseLimits(llvm::MemoryBufferRef buffer) {
  if (buffer.getBuffer().starts_with("ML\xefR"))
    return llvm::Error::success(); // bytecode
  return Scan(buffer).run();
}

} // namespace shale
