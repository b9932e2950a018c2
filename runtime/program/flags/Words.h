// The program's answers to flags of other trainers.
#ifndef SHALE_RUNTIME_PROGRAM_FLAGS_WORDS_H
#define SHALE_RUNTIME_PROGRAM_FLAGS_WORDS_H

#include <functional>
#include <string>

namespace shale::rt {

/// Returns what a flag as typed ("--grad-clip") is if it belongs to another trainer or to the
/// compiler, as the rest of a sentence; "" for an unknown flag. `isOwn` tells whether a plain
/// word is a flag of the program.
std::string answerToFlag(const std::string &flag,
                         const std::function<bool(const std::string &)> &isOwn);

} // namespace shale::rt

#endif
