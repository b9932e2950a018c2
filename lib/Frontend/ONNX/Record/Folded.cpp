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
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

void onnx::claimFolded(Findings &findings, const Known &known, const FoldedValue &value,
                       ArrayRef<size_t> parameters, const Expression &expression, Evidence evidence,
                       std::optional<Repair> remark) {
  const Movement &movement = expression.movement;
  bool isPlain = expression.op == "input" ||
                 (expression.op == "move" && expression.operands[0].op == "input" &&
                  movement.keepsElements() && movement.split == movement.shape);
  ReadClaim read{parameters[0], value.places()};
  if (!isPlain)
    read.expression = expression;
  read.others = parameters.drop_front().vec();
  std::vector<std::string> names;
  for (size_t index : parameters)
    names.push_back(known.parameter(index).name);
  findings.claim(evidence, std::move(read),
                 remark ? std::move(remark) : messages::foldedAgain(value, expression, names));
}

/// Tensors that code creates depend on no parameter.
Findings rules::madeByCode(const Known &known, const FoldedValue &value) {
  Findings findings;
  if (isMadeByCode(value.first().op))
    findings.claim(Evidence::Form, ConstantClaim{value.places().front()});
  return findings;
}

/// No gradient flows to masks. A parameter may begin with the values of one: gates of 1 and 0.
Findings rules::mask(const Known &known, const FoldedValue &value) {
  Findings findings;
  if (value.numbers && isMask(*value.numbers) && parameterBehind(known, value) < 0)
    findings.claim(Evidence::Value, ConstantClaim{value.places().front()});
  return findings;
}

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

/// Whether the value may be the same function of another parameter that began with equal elements:
/// nothing lists what it was folded from. A value that was merged with an equal one may be of a
/// parameter that is missing.
static bool mayBeOfAnother(const Known &known, const FoldedValue &value, size_t index) {
  const FoldedRead &read = value.first();
  if (!value.from.empty())
    return false;
  bool isMerged = read.name != read.initializer->name();
  for (size_t other = 0; other < known.found.list.size(); ++other)
    if (other != index && known.parameter(other).isParameter &&
        areNested(moduleOf(known.target(other)), read.scope) &&
        (known.isMissing(other)
             ? isMerged
             : known.parameter(other).used && known.haveEqualValues(index, other)))
      return true;
  return false;
}

/// Explains a value as a simple function of a parameter that the file has.
Findings rules::byValue(const Known &known, const FoldedValue &value) {
  Findings findings;
  if (!value.numbers || value.first().isComputed)
    return findings;
  // The same module is tried first: a function fits more than one parameter only by accident.
  for (bool sameModule : {true, false})
    for (size_t index = 0; index < known.found.list.size(); ++index) {
      StringRef target = known.target(index);
      if (!known.parameter(index).isParameter || !known.parameter(index).used ||
          (moduleOf(target) == value.first().scope) != sameModule ||
          (!value.from.empty() && !llvm::is_contained(value.from, target)))
        continue;
      const Numbers *parameter = known.numbersOf(index);
      if (!parameter || parameter->size() < value.numbers->size() / 64)
        continue;
      std::optional<Expression> expression =
          fitExpression(*parameter, *value.numbers, value.first().op);
      // A table is an affine function of any parameter that was initialized the same way. Modules
      // compute only with their own parameters, or those of an enclosing or nested module.
      if (!expression ||
          (!expression->movesOnly() && ((value.first().mayBeMoved() && value.isTable()) ||
                                        !areNested(moduleOf(target), value.first().scope))))
        continue;
      if (!mayBeOfAnother(known, value, index))
        claimFolded(findings, known, value, index, *expression, Evidence::Value);
      return findings;
    }
  return findings;
}

/// Makes reads of 1 - w read the parameter that w comes from.
Findings rules::complements(const Known &known) {
  Findings findings;
  const Parameters &found = known.found;
  for (const Operation &operation : known.program.operations())
    for (const Use &use : operation.complements) {
      auto read = found.uses.find({operation.weight->node, operation.weight->operand});
      if (read == found.uses.end())
        continue;
      const ParameterUse &weight = read->second;
      ReadClaim claim{weight.parameter, {{use.node, use.operand}}, weight.transposed};
      claim.others = weight.others;
      claim.expression = Expression::of(
          "sub", Expression::ofNumber(1),
          weight.expression < 0 ? Expression::ofInput() : found.expressions[weight.expression]);
      findings.claim(Evidence::Form, std::move(claim));
    }
  return findings;
}
