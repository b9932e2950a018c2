// Flags and values that users of other trainers know, in our words.
#ifndef SHALE_RUNTIME_PROGRAM_WORDS_H
#define SHALE_RUNTIME_PROGRAM_WORDS_H

#include <string>

namespace shale::rt {

/// What to say to a flag ("--grad-clip") that is not ours but another trainer's or
/// the compiler's; "" for one that is nobody's.
std::string answerToFlag(const std::string &flag);

/// Our value for what was typed, by the flag that it was typed for; "" where
/// there is none.
std::string ourValue(const std::string &flag, const std::string &typed);

} // namespace shale::rt

#endif
