//===- Printable.cpp - Text of others for a terminal ----------------------===//
#include "lib/Support/Printable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace shale;
using llvm::StringRef;

/// Returns the bytes of the character at the beginning of `text`, UTF-8, if a terminal would act on
/// it, else 0.
static size_t controlBytes(StringRef text) {
  unsigned char first = text[0], second = text.size() > 1 ? text[1] : 0,
                third = text.size() > 2 ? text[2] : 0;
  if (first < 0x20)
    return first != '\n' && first != '\t';
  if (first == 0x7f)
    return 1;
  if (first == 0xc2 && second >= 0x80 && second < 0xa0) // C1
    return 2;
  bool reverses = first == 0xe2 && ((second == 0x80 && third >= 0xaa && third <= 0xae) ||
                                    (second == 0x81 && third >= 0xa6 && third <= 0xa9));
  return reverses ? 3 : 0;
}

void PrintableStream::write_impl(const char *data, size_t size) {
  std::string fixed, out;
  StringRef text(data, size);
  if (!llvm::json::isUTF8(text)) {
    fixed = llvm::json::fixUTF8(text);
    text = fixed;
  }
  auto put = [&](char byte) {
    bool isSpace = byte == ' ' || byte == '\n' || byte == '\t',
         continues = (byte & 0xc0) == 0x80; // a character of several bytes
    if (isSpace)
      word = 0;
    if (isSpace || ++word <= kMostOfAWord || (continues && !cut))
      out += byte;
    else if (!cut)
      out += "...";
    cut = word > kMostOfAWord && !(continues && !cut);
  };
  while (!text.empty()) {
    size_t control = controlBytes(text);
    if (control == 0)
      put(text[0]);
    for (unsigned char byte : text.take_front(control))
      for (char c : {'\\', 'x', llvm::hexdigit(byte >> 4, true), llvm::hexdigit(byte & 15, true)})
        put(c);
    text = text.drop_front(std::max<size_t>(control, 1));
  }
  to << out;
}

std::string shale::printable(StringRef text) {
  constexpr size_t kMost = 8192, kEnd = 2048;
  std::string out;
  llvm::raw_string_ostream os(out);
  PrintableStream stream(os);
  stream << text;
  if (out.size() > kMost)
    out = llvm::json::fixUTF8(StringRef(out).take_front(kMost - kEnd)) + " ... " +
          llvm::json::fixUTF8(StringRef(out).take_back(kEnd));
  return out;
}
