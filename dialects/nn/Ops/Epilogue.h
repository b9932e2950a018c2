//===- Epilogue.h - Matmuls with an epilogue ------------------------------===//
#ifndef SHALE_NN_OPS_EPILOGUE_H
#define SHALE_NN_OPS_EPILOGUE_H

#include "dialects/nn/Epilogue.h"
#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Epilogue.h.inc"

namespace shale::nn {
/// Adds the ops of Epilogue.td to the dialect.
void registerEpilogueOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_EPILOGUE_H
