//===- Seed.h - Where given gradients begin -------------------------------===//
#ifndef SHALE_NN_OPS_SEED_H
#define SHALE_NN_OPS_SEED_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Seed.h.inc"

#endif // SHALE_NN_OPS_SEED_H
