//===- PassOptions.h - Options of passes that are flags of shalec ---------===//
#ifndef SHALE_OPTIONS_PASSOPTIONS_H
#define SHALE_OPTIONS_PASSOPTIONS_H

#include "lib/Options/Options.h"

namespace shale {

// optionsOf<FreezePassOptions>(options) returns the options of a pass. Those that have the name of
// a flag have its value, the others keep their defaults.
#define GET_PASS_OPTIONS
#include "lib/Options/Options.h.inc"

} // namespace shale

#endif // SHALE_OPTIONS_PASSOPTIONS_H
