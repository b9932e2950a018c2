//===- Interfaces.cpp - What passes ask of ops ----------------------------===//
#include "dialects/interfaces/Interfaces.h"

#include "dialects/interfaces/Interfaces.cpp.inc"
