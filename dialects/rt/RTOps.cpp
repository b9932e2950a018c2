//===- RTOps.cpp - Generated definitions of the ops of rt -----------------===//
#include "dialects/rt/RT.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "dialects/rt/RTOps.cpp.inc"
