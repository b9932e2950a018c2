//===- UpdateFactors.h - Factors of a parameter in its update -------------===//
#ifndef SHALE_NN_UPDATEFACTORS_H
#define SHALE_NN_UPDATEFACTORS_H

#include "dialects/nn/NN.h"
#include <array>

namespace shale::nn {

/// The number of factors.
inline constexpr size_t kUpdateFactors = getMaxEnumValForUpdateFactor() + 1;

/// The values of all factors of a parameter.
struct UpdateFactors {
  std::array<double, kUpdateFactors> values;

  /// Reads `#nn.update_factors`. Null: all are 1.
  static UpdateFactors of(UpdateFactorsAttrInterface attr);
  /// Returns the attribute, or null if all are 1.
  UpdateFactorsAttr toAttr(mlir::MLIRContext *context) const;

  double operator[](UpdateFactor factor) const { return values[size_t(factor)]; }
  double &operator[](UpdateFactor factor) { return values[size_t(factor)]; }
  bool operator==(const UpdateFactors &other) const { return values == other.values; }
};

} // namespace shale::nn

#endif // SHALE_NN_UPDATEFACTORS_H
