// Token files. Formats: nanoGPT's .bin is headerless uint16; llm.c's has 256
// int32 (magic 20240520 version 1: uint16, 20240801 version 7: uint32; third
// word: token count); .npy: see Npy.h.
#include "runtime/data/Tokens.h"
#include "runtime/core/Error.h"
#include "runtime/data/Foreign.h"
#include "runtime/data/Npy.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace shale::rt {

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

TokenFile::TokenFile(const std::string &path, const TokenOptions &options) : file(path) {
  if (ForeignKind kind = foreignKind(file);
      kind.name && !options.typed && !(endsWith(path, ".npy") && isNpy(kind)))
    fail(SHALE_EXIT_DATA, "'%s' is %s, not a file of tokens: %s", path.c_str(), kind.name,
         kind.remedy);
  if (endsWith(path, ".npy") || endsWith(path, ".bin")) {
    if (endsWith(path, ".npy"))
      openNpy();
    else
      openBin(options);
    checkRange(options);
    return;
  }
  bool bytes = options.vocabulary > 0 && options.vocabulary <= 256;
  if (!options.typed && !bytes)
    fail(SHALE_EXIT_DATA,
         "'%s' is not a .bin, .npy or .safetensors file, and its bytes are not tokens "
         "of a model with %s: tokenize it first. A file of tokens under this name "
         "needs --token-dtype (uint8 for bytes)",
         path.c_str(),
         options.vocabulary > 0
             ? format("a vocabulary of %lld", (long long)options.vocabulary).c_str()
             : "an unknown vocabulary");
  if (options.typed)
    openHeaderless(options);
  else
    tokens = file.size();
}

void TokenFile::openBin(const TokenOptions &options) {
  int32_t header[3] = {0, 0, 0};
  if (file.size() >= 12)
    file.readAt(0, header, sizeof(header));
  const char *name = file.path().c_str();
  if (header[0] == 20240520 || header[0] == 20240801) {
    bool wide = header[0] == 20240801;
    element = wide ? Dtype::U32 : Dtype::U16;
    start = 1024;
    tokens = header[2];
    if (header[1] != (wide ? 7 : 1))
      fail(SHALE_EXIT_DATA, "'%s': llm.c token file of unknown version %d", name, header[1]);
    if (tokens < 0 || file.size() != start + tokens * sizeOf(element))
      fail(SHALE_EXIT_DATA, "'%s': the header says %lld tokens, the file has %lld bytes", name,
           (long long)tokens, (long long)file.size());
    return;
  }
  const std::pair<int32_t, const char *> others[] = {{20240522, "an llm.c evaluation file"},
                                                     {20240326, "an llm.c model"},
                                                     {20240527, "an llm.c training state"},
                                                     {20240328, "an llm.c tokenizer"}};
  for (const auto &other : others)
    if (header[0] == other.first && file.size() >= 1024)
      fail(SHALE_EXIT_DATA, "'%s' is %s, not a file of tokens", name, other.second);
  openHeaderless(options);
}

void TokenFile::openHeaderless(const TokenOptions &options) {
  const std::pair<const char *, Dtype> types[] = {{"uint8", Dtype::U8},
                                                  {"uint16", Dtype::U16},
                                                  {"uint32", Dtype::U32},
                                                  {"int32", Dtype::I32},
                                                  {"int64", Dtype::I64}};
  for (const auto &[name, type] : types)
    if (options.type == name)
      element = type;
  if (file.size() % sizeOf(element) != 0)
    fail(SHALE_EXIT_DATA, "'%s' has %lld bytes, no whole number of %s tokens; see --token-dtype",
         file.path().c_str(), (long long)file.size(), options.type.c_str());
  tokens = file.size() / sizeOf(element);
  checkWidth(options);
}

/// Detects numbers of 32 or 64 bits that are read as narrower ones: every second number,
/// or three of four, then holds only the high bits, which are zero for most
/// vocabularies. Every such number is a valid token, so no other check detects this.
void TokenFile::checkWidth(const TokenOptions &options) const {
  constexpr int64_t sampled = 1 << 13, fewest = 64;
  int64_t size = sizeOf(element);
  if ((size != 2 && size != 4) || tokens < fewest)
    return;
  int64_t n = std::min(tokens, sampled) / 4 * 4;
  std::vector<char> sample(n * size);
  // The largest value of a token's high bits with this vocabulary.
  uint64_t most =
      options.vocabulary > 0 ? static_cast<uint64_t>(options.vocabulary - 1) >> (8 * size) : 0;
  bool second = true, third = true, any = false;
  for (int64_t from : {int64_t(0), (tokens - n) / 8 * 4}) {
    read(from, n, sample.data());
    for (int64_t i = 0; i < n; i += 2) {
      auto value = [&](int64_t at) {
        return static_cast<uint64_t>(integerAt(element, sample.data(), at));
      };
      any |= value(i) != value(0) && i % 4 == 0;
      second &= value(i + 1) <= most;
      third &= i % 4 == 0 || (value(i) == 0 && value(i + 1) == 0);
    }
  }
  if (!any || !second)
    return;
  bool wide = size == 4 || (third && file.size() % 8 == 0);
  if (file.size() % (wide ? 8 : 4) != 0)
    return;
  fail(SHALE_EXIT_DATA,
       "'%s' is not a file of %s: %s of its numbers are only the high bits of the "
       "number before. It looks like %s; pass --token-dtype %s",
       file.path().c_str(), options.type.c_str(),
       size == 2 && wide ? "three of four" : "every second", wide ? "int64" : "int32 or uint32",
       wide ? "int64" : "uint32");
}

/// Refuses numbers that are too narrow for the vocabulary: larger ones that were cast to them have
/// wrapped, and every result is a valid token.
void TokenFile::checkRange(const TokenOptions &options) const {
  int64_t size = sizeOf(element);
  if (options.typed || size > 2 || options.vocabulary <= int64_t(1) << (8 * size))
    return;
  fail(
      SHALE_EXIT_DATA,
      "'%s' holds tokens of %lld bits, %lld different ones, and the model has a vocabulary of %lld: "
      "larger tokens wrapped when they were written. Write the file again with 32 bits; pass "
      "--token-dtype %s if no token is larger",
      file.path().c_str(), (long long)(8 * size), (long long)(int64_t(1) << (8 * size)),
      (long long)options.vocabulary, size == 1 ? "uint8" : "uint16");
}

void TokenFile::openNpy() {
  const char *name = file.path().c_str();
  NpyHeader header = readNpyHeader(file);
  start = header.start;
  const std::pair<const char *, Dtype> types[] = {
      {"<i8", Dtype::I64}, {"<i4", Dtype::I32}, {"<i2", Dtype::I16}, {"|i1", Dtype::I8},
      {"<u8", Dtype::U64}, {"<u4", Dtype::U32}, {"<u2", Dtype::U16}, {"|u1", Dtype::U8}};
  bool known = false;
  for (const auto &type : types)
    if (header.descr == type.first) {
      element = type.second;
      known = true;
    }
  if (!known)
    fail(SHALE_EXIT_DATA, "'%s' holds '%s'; tokens are little-endian integers (int8 to uint64)",
         name, printable(header.descr).c_str());
  if (header.shape.size() != 1)
    fail(SHALE_EXIT_DATA,
         "'%s' has %zu dimensions; tokens must be a 1-D array: reshape(-1) before saving", name,
         header.shape.size());
  tokens = header.shape[0];
  if (tokens > (file.size() - start) / sizeOf(element) ||
      tokens * sizeOf(element) != file.size() - start)
    fail(SHALE_EXIT_DATA, "'%s': the header says %lld tokens, %lld bytes follow", name,
         (long long)tokens, (long long)(file.size() - start));
}

void TokenFile::read(int64_t first, int64_t n, void *buffer) const {
  file.readAt(offsetOf(first), buffer, n * sizeOf(element));
}

} // namespace shale::rt
