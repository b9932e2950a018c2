//===- Folded.cpp - Parameters that the exporter folded into constants ----===//
//
// The exporter computes everything that depends on small parameters alone and
// keeps the result as an initializer: the remaining graph would silently train
// without these parameters. A node's metadata still names the value that it read
// (`%sub`), for which the graph has no node. If that value can be traced back to
// a parameter beyond doubt, its computation is restored; otherwise the import
// fails with an error that names the parameter and the remedy.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;

/// Explains a read of an initializer with a parameter's name: an operation that changed nothing was
/// removed, and the node reads the parameter itself.
Findings rules::byName(const Known &known, const FoldedValue &value) {
  Findings findings;
  const FoldedRead &read = value.first();
  std::optional<size_t> index = known.program.parameterNamed(read.initializer->name());
  bool isNamed = read.name == read.initializer->name();
  if (!index || !(isNamed || read.mayBeMoved()))
    return findings;
  const Parameter &parameter = known.parameter(*index);
  // Equal constants are merged under one name, so the parameter may be another one.
  bool isMerged = !value.numbers || isConstant(*value.numbers);
  if (parameter.used ? isMerged || parameter.initializer != read.initializer || parameter.transposed
                     : isMerged && isNamed)
    return findings;
  findings.claim(Evidence::Name, ValueClaim{*index, {read.initializer}});
  findings.claim(Evidence::Name, ReadClaim{*index, value.places()});
  return findings;
}
