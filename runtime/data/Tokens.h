// Files of tokens: one long row of integers.
#ifndef SHALE_RUNTIME_DATA_TOKENS_H
#define SHALE_RUNTIME_DATA_TOKENS_H

#include "runtime/core/Files.h"
#include "runtime/core/Types.h"

#include <memory>

namespace shale::rt {

/// Reads `.bin` (headerless or with llm.c's header), `.npy` (one dimension,
/// integers) and, under any other name, plain bytes. `binType` is the type of a
/// headerless `.bin`: "uint8", "uint16" or "uint32".
class TokenFile {
public:
  TokenFile(const std::string &path, const std::string &binType);
  int64_t count() const { return tokens; }
  Dtype type() const { return element; }
  const std::string &path() const { return file.path(); }
  /// Reads `n` tokens from `first` on, in the file's type.
  void read(int64_t first, int64_t n, void *buffer) const;
  int64_t offsetOf(int64_t token) const {
    return start + token * sizeOf(element);
  }

private:
  void openBin(const std::string &binType);
  void openNpy();
  InputFile file;
  Dtype element = Dtype::U8;
  int64_t start = 0;
  int64_t tokens = 0;
};

bool endsWith(const std::string &text, const std::string &end);

} // namespace shale::rt

#endif
