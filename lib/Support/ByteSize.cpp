//===- ByteSize.cpp - Parsing and printing of byte sizes ------------------===//
#include "lib/Support/ByteSize.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace shale;
using llvm::StringRef;

std::optional<int64_t> shale::parseByteSize(StringRef text) {
  static const std::pair<const char *, double> units[] = {
      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"KB", 1e3},
      {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},    {"B", 1}};
  StringRef number = text.trim();
  double unit = 1;
  for (auto [name, size] : units)
    if (number.consume_back(name)) {
      unit = size;
      break;
    }
  number = number.rtrim();
  int64_t whole;
  if (unit == 1)
    return number.getAsInteger(10, whole) || whole < 0 ? std::nullopt
                                                       : std::optional<int64_t>(whole);
  double value;
  if (number.empty() || number.find_first_not_of("0123456789.") != StringRef::npos ||
      number.getAsDouble(value))
    return std::nullopt;
  double bytes = std::floor(value * unit);
  return bytes < 0x1p62 ? std::optional<int64_t>(int64_t(bytes)) : std::nullopt;
}

std::string shale::formatBytes(int64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = bytes < 0 ? -double(bytes) : double(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 5; ++unit)
    value /= 1024;
  std::string text;
  llvm::raw_string_ostream os(text);
  os << (bytes < 0 ? "-" : "");
  if (unit == 0)
    os << llvm::format("%.0f", value);
  else
    os << llvm::format("%.2f", value);
  os << " " << units[unit];
  return text;
}

std::string shale::byteSizeText(int64_t bytes) {
  return bytes > 0 && bytes % (1 << 20) == 0 ? std::to_string(bytes >> 20) + "MiB"
                                             : std::to_string(bytes);
}

std::string shale::parseMemoryLimit(StringRef text, MemoryLimit &limit) {
  limit = MemoryLimit();
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    auto [name, size] = part.split('=');
    bool plain = !part.contains('=');
    name = name.trim();
    std::optional<int64_t> *slot = plain              ? &limit.sum
                                   : name == "host"   ? &limit.host
                                   : name == "device" ? &limit.device
                                                      : nullptr;
    if (!slot || *slot || (plain && parts.size() > 1))
      return ("expects SIZE or device=SIZE,host=SIZE; got '" + text + "'").str();
    StringRef number = plain ? part : size;
    *slot = parseByteSize(number);
    if (!*slot)
      return ("'" + number + "' is not a size, such as 40GiB or 500MB").str();
  }
  return "";
}
