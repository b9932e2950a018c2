//===- UnchosenExperts.h - What tensors are for experts not chosen --------===//
#ifndef SHALE_PASSES_IMPORT_UNCHOSENEXPERTS_H
#define SHALE_PASSES_IMPORT_UNCHOSENEXPERTS_H

#include "passes/import/ExpertPlaces.h"

namespace shale::recover {

/// Whether all elements of a value are zeros for the experts that a token did not choose, whatever
/// the inputs are. Other numbers are taken as finite: zero times such a number is zero.
bool isUnchosenZero(const Choice &choice, mlir::Value value, Place place);

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_UNCHOSENEXPERTS_H
