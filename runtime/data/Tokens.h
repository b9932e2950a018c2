// Token files: one long row of integers.
#ifndef SHALE_RUNTIME_DATA_TOKENS_H
#define SHALE_RUNTIME_DATA_TOKENS_H

#include "runtime/core/Files.h"
#include "runtime/core/Types.h"

#include <memory>

namespace shale::rt {

struct TokenOptions {
  std::string type = "uint16"; // of a headerless file: uint8, uint16, uint32, int32, int64
  bool typed = false;          // `type` was given by the user
  int64_t vocabulary = 0;      // 0: not known
};

/// Reads `.bin` (headerless or with llm.c's header) and `.npy` (one dimension,
/// integers). A file with any other extension is headerless, too, but has no default
/// type: it holds bytes if the vocabulary has at most 256 tokens, else the user has to
/// give the type. It is an error if the tokens are evidently wider than the type, or if the
/// type is too narrow for the vocabulary and not given.
class TokenFile {
public:
  TokenFile(const std::string &path, const TokenOptions &options);
  int64_t count() const { return tokens; }
  Dtype type() const { return element; }
  const std::string &path() const { return file.path(); }
  const InputFile &input() const { return file; }
  /// Reads `n` tokens from `first` on, in the file's type.
  void read(int64_t first, int64_t n, void *buffer) const;
  /// Returns the offset of a token in the file, in bytes.
  int64_t offsetOf(int64_t token) const { return start + token * sizeOf(element); }

private:
  void openBin(const TokenOptions &options);
  void openNpy();
  void openHeaderless(const TokenOptions &options);
  void checkWidth(const TokenOptions &options) const;
  void checkRange(const TokenOptions &options) const;
  InputFile file;
  Dtype element = Dtype::U8;
  int64_t start = 0;
  int64_t tokens = 0;
};

bool endsWith(const std::string &text, const std::string &end);

} // namespace shale::rt

#endif
