//===- Printable.h - Text of others for a terminal ------------------------===//
#ifndef SHALE_SUPPORT_PRINTABLE_H
#define SHALE_SUPPORT_PRINTABLE_H

#include "llvm/Support/raw_ostream.h"
#include <string>

namespace shale {

/// Passes text on to another stream, made fit for a terminal: names in a model's file may hold
/// anything. Control characters other than line feeds and tabs, and those that reverse the
/// direction of writing, become \xNN; bytes that are no UTF-8 become U+FFFD; a word of more than
/// kMostOfAWord bytes is cut and ends with "...".
class PrintableStream : public llvm::raw_ostream {
public:
  static constexpr size_t kMostOfAWord = 1024;

  explicit PrintableStream(llvm::raw_ostream &to) : raw_ostream(/*unbuffered=*/true), to(to) {}

private:
  void write_impl(const char *data, size_t size) override;
  uint64_t current_pos() const override { return 0; }

  llvm::raw_ostream &to;
  size_t word = 0; // bytes of the current word
  bool cut = false;
};

/// Returns the text as PrintableStream writes it. Of more than 8192 bytes, the middle is left out.
std::string printable(llvm::StringRef text);

} // namespace shale

#endif // SHALE_SUPPORT_PRINTABLE_H
