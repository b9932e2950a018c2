// Looks up flags and values of other frameworks in the table of ForeignWords.def, which names
// Shale's. shalec is built with this file, too.
#ifndef SHALE_RUNTIME_PROGRAM_FLAGS_FOREIGNWORDS_H
#define SHALE_RUNTIME_PROGRAM_FLAGS_FOREIGNWORDS_H

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace shale::rt {

/// What a row of the table says of flags of another framework.
struct ForeignFlag {
  const char *shalec; // what shalec has; "" if nothing
  const char *train;  // what the program has; "" if nothing
  std::string why;    // "is not needed: WHY" or "does not exist in Shale: WHY"; "" for other rows
};

/// The result of looking up a flag that a user typed.
struct FoundFlag {
  std::string own;                // a flag of Shale without "--", by another name; or "":
  std::optional<ForeignFlag> row; // what the table says, if it has the flag
};

/// Returns a word in lower case with - for _, without the dashes before it.
std::string plainWord(std::string word);

/// Looks up a flag as typed: "--training.local_batch_size". `isOwn` tells whether a plain word
/// is a flag of Shale, of shalec or of the program.
FoundFlag findForeignFlag(const std::string &typed,
                          const std::function<bool(const std::string &)> &isOwn);

/// Returns the one of `names` of which a word is likely a slip of the fingers: a letter left out,
/// added or changed, or two swapped (two of these in a word of eight letters or more), or its first
/// letters, three or more. "" if there is none, as for most words of other frameworks, which mean
/// something else.
std::string nearestWord(const std::string &word, const std::vector<std::string> &names);

/// Returns what Shale has for a value as typed, "'zero2': in Shale, use --shard grad" for the flag
/// "shard", or why it has nothing; "" if the table does not have the value. The flag is a plain
/// word.
std::string answerToForeignValue(const std::string &flag, const std::string &typed);

/// Whether a plain word is a flag of shalec.
bool isShalecFlag(const std::string &name);
/// Whether a plain word is a flag of all programs. Settings of optimizers are not among them.
bool isTrainFlag(const std::string &name);

/// Returns an argument with Shale's spelling of its flag: "--lr=1e-3" for "--LR=1e-3" and
/// "--min-lr" for "--min_lr", if `isOwn` takes it for a flag; the argument otherwise.
std::string withPlainFlag(const std::string &argument,
                          const std::function<bool(const std::string &)> &isOwn);

} // namespace shale::rt

#endif
