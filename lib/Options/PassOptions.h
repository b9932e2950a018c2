//===- PassOptions.h - Options of passes that are flags of shalec ---------===//
#ifndef SHALE_OPTIONS_PASSOPTIONS_H
#define SHALE_OPTIONS_PASSOPTIONS_H

#include "lib/Options/Options.h"

namespace shale {

// optionsOf<FreezePassOptions>(options): the options of a pass, with the values of the flags that
// have their names. What is no flag has its default.
#define GET_PASS_OPTIONS
#include "lib/Options/Options.h.inc"

} // namespace shale

#endif // SHALE_OPTIONS_PASSOPTIONS_H
