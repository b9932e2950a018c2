//===- NNOps.cpp - Generated definitions of the ops of nn -----------------===//
#include "dialects/nn/NN.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;

#include "dialects/nn/Parsing.h"

#define GET_OP_CLASSES
#include "dialects/nn/NNOps.cpp.inc"
