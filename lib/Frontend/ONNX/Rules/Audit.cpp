//===- Audit.cpp - The graph against its record ---------------------------===//
//
// The exporter records the operation that each node was made from, with its arguments. Where nodes
// differ from the form in which the exporter writes that operation, a tool has changed the file.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Rules/Rules.h"

using namespace shale;
using namespace shale::onnx;

void rules::form(Known &known) {
  const TracedProgram &program = known.program;
  if (!program.mismatch())
    return;
  const TracedOperation &operation = *program.mismatch()->operation;
  const Difference &difference = program.mismatch()->difference;
  const Said target = plain(displayName(operation.fx.target));
  if (program.mismatch()->isMergedNorm)
    return known.refuse(Reason::MergedNorm, operation.nodes.back(), {operation.fx.name});
  if (difference.operand < 0 && difference.attribute.empty())
    return known.refuse(Reason::OtherOrder, operation.nodes.front(),
                        {operation.fx.name, target, target});
  std::string place = difference.attribute.empty() ? say("operand {}", {difference.operand})
                                                   : say("attribute {}", {difference.attribute});
  known.refuse(Reason::OtherForm, difference.node,
               {plain(displayName(difference.found)), plain(place), target,
                plain(displayName(difference.expected)), target});
}
