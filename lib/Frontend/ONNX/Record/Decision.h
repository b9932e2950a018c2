//===- Decision.h - Claims are compared and applied -----------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_DECISION_H
#define SHALE_FRONTEND_ONNX_RECORD_DECISION_H

#include "lib/Frontend/ONNX/Record/Known.h"

namespace shale::onnx {

/// The only place where what is known changes.
class Decision {
public:
  explicit Decision(Known &known) : known(known), out(known.found) {}

  /// Takes what a rule found. A claim about an operand of which a stronger claim says otherwise is
  /// left out. If that one is as strong, the two contradict each other: an error.
  void take(Findings findings);
  /// Moves each tied parameter to the first of its listed names, and to the place of that name.
  void takeFirstNames();

private:
  bool apply(const Claim &claim, const ReadClaim &read);
  bool apply(const Claim &claim, const ValueClaim &value);
  bool apply(const Claim &claim, const BiasClaim &bias);
  bool apply(const Claim &claim, const RestoredClaim &restored);
  bool apply(const Claim &claim, const MergedClaim &merged);
  bool apply(const Claim &claim, const NameClaim &name);
  bool mayRead(const Claim &claim, const ReadClaim &read, const Place &place);
  void explain(const Place &place);

  Known &known;
  Parameters &out;
  /// The evidence of each read of a parameter.
  std::map<Place, Evidence> evidence;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_DECISION_H
