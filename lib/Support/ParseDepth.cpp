//===- ParseDepth.cpp - Rejects text that nests too deep to be parsed -----===//
#include "lib/Support/ParseDepth.h"
#include "llvm/ADT/StringExtras.h"

namespace shale {

/// Returns the position after a string or comment that begins at `i`, or `i` if
/// there is none.
static size_t skipText(llvm::StringRef text, size_t i) {
  if (text[i] == '"') {
    for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
      if (text[i] == '\\')
        ++i;
    return i + 1;
  }
  if (text.substr(i).starts_with("//")) {
    size_t end = text.find('\n', i);
    return end == llvm::StringRef::npos ? text.size() : end;
  }
  return i;
}

llvm::Error checkParseDepth(llvm::MemoryBufferRef buffer) {
  llvm::StringRef text = buffer.getBuffer();
  if (text.starts_with("ML\xefR"))
    return llvm::Error::success(); // bytecode
  int64_t depth = 0;
  for (size_t i = 0; i < text.size();) {
    if (size_t next = skipText(text, i); next != i) {
      i = next;
      continue;
    }
    char c = text[i++];
    // -> >= <= == are not brackets.
    bool isOperator = (i < text.size() && text[i] == '=') || (i >= 2 && text[i - 2] == '-');
    if (c == '(' || c == '[' || c == '{' || (c == '<' && !isOperator))
      ++depth;
    else if (c == ')' || c == ']' || c == '}' || (c == '>' && !isOperator))
      depth = std::max<int64_t>(depth - 1, 0);
    if (depth > kMaxParseDepth) {
      llvm::StringRef before = text.take_front(i);
      size_t line = before.count('\n') + 1;
      size_t column = i - (before.rfind('\n') + 1);
      return llvm::createStringError(buffer.getBufferIdentifier() + ":" + llvm::Twine(line) + ":" +
                                     llvm::Twine(column) + ": brackets nest more than " +
                                     llvm::Twine(kMaxParseDepth) + " deep");
    }
  }
  return llvm::Error::success();
}

} // namespace shale
