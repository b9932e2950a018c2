// Suggestions for flags and values of other trainers.
#ifndef SHALE_RUNTIME_PROGRAM_WORDS_H
#define SHALE_RUNTIME_PROGRAM_WORDS_H

#include <string>

namespace shale::rt {

/// Returns a hint for a flag ("--grad-clip") that belongs to another trainer or to
/// the compiler; "" for an unknown flag.
std::string answerToFlag(const std::string &flag);

/// Returns Shale's value for the value of another trainer that was `typed` for `flag`;
/// "" if there is none.
std::string ourValue(const std::string &flag, const std::string &typed);

} // namespace shale::rt

#endif
