//===- FoldedBySource.cpp - Folded values by the model's source -----------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

/// Claims the value of a parameter that is nowhere in the file, perhaps only a part of it.
static void define(Findings &findings, Evidence evidence, size_t index, const Numbers &numbers,
                   int32_t dataType, bool mayBePart = false) {
  InitialValue value;
  value.shape = std::vector<int64_t>(numbers.shape.begin(), numbers.shape.end());
  value.dataType = dataType;
  value.values = numbers.values;
  value.mayBePart = mayBePart;
  findings.claim(evidence, ValueClaim{index, std::move(value)});
}

namespace {

/// How a line of source computes a value. A parameter that the file does not have otherwise is
/// `unknown`, and `solution` is its value or that of a part of it.
struct Match {
  Reading reading;
  int unknown = -1;
  Solution solution;

  size_t parameter() const { return reading.parameters[unknown]; }
};

} // namespace

/// Returns the only reading that gives a constant. `from`: what the exporter lists as that from
/// which the value was folded, if it does. `isNeutral`: the constant is 0 or 1 of any shape.
static std::optional<Match> matchOf(const Known &known, std::vector<Reading> readings,
                                    const Numbers &constant, ArrayRef<std::string> from,
                                    bool isNeutral) {
  std::set<size_t> listed;
  for (const std::string &name : from)
    if (std::optional<size_t> target = known.program.parameterNamed(name))
      listed.insert(*target);
  std::optional<Match> found;
  for (Reading &reading : readings) {
    Match match;
    if (!from.empty() &&
        listed != std::set<size_t>(reading.parameters.begin(), reading.parameters.end()))
      continue;
    SmallVector<const Numbers *> inputs;
    bool isOpen = false;
    for (auto [k, index] : llvm::enumerate(reading.parameters)) {
      inputs.push_back(known.parameter(index).used ? known.numbersOf(index) : nullptr);
      if (inputs.back())
        continue;
      isOpen |= match.unknown >= 0 || !known.isMissing(index);
      match.unknown = k;
    }
    if (isOpen)
      continue;
    if (match.unknown < 0) {
      std::optional<Numbers> value = evaluate(known.program.context(), reading.expression, inputs);
      if (!value || (isNeutral ? value->size() != 1 : !isClose(*value, constant)))
        continue;
      double distance = std::abs(value->values[0] - constant.values[0]);
      if (isNeutral && !(distance <= (constant.values[0] == 1 ? kTakenForOne : kTakenForZero)))
        continue;
    } else {
      std::optional<Solution> solution =
          solve(known.program.context(), reading.expression, inputs, match.unknown, constant);
      if (!solution)
        continue;
      match.solution = std::move(*solution);
    }
    if (found)
      return std::nullopt;
    match.reading = std::move(reading);
    found = std::move(match);
  }
  return found;
}

/// Explains a value by the line of source of the node that reads it.
Findings rules::bySource(const Known &known, const FoldedValue &value) {
  Findings findings;
  if (!value.numbers)
    return findings;
  const FoldedRead &read = value.first();
  auto parameterOf = [&](StringRef path) { return known.parameterAt(read.scope, path); };
  std::optional<Match> match =
      matchOf(known, readingsOf({read.source, read.op, read.reader}, parameterOf), *value.numbers,
              value.from, /*isNeutral=*/false);
  if (!match)
    return findings;
  int32_t dataType = read.initializer->data_type();
  if (match->solution.part >= 0) {
    findings.claim(Evidence::Source, PartClaim{match->parameter(), match->solution, match->reading,
                                               value.places(), dataType});
    return findings;
  }
  if (match->unknown >= 0)
    define(findings, Evidence::Source, match->parameter(), match->solution.numbers, dataType);
  claimFolded(findings, known, value, match->reading.parameters, match->reading.expression,
              Evidence::Source);
  return findings;
}

/// The number of functions of one operand whose order is searched.
static constexpr size_t kMaxFunctions = 4;

/// Explains a value by the names that the exporter lists as that from which it was folded: one
/// parameter that the file does not have otherwise, functions of one operand, movements that keep
/// the order of elements, and repeats. The list does not have the order of the functions, except
/// that the value's own operation is the last: only one order may have the values.
Findings rules::byChain(const Known &known, const FoldedValue &value) {
  Findings findings;
  ArrayRef<std::string> from = value.from;
  StringRef last = value.first().op;
  if (!value.numbers || from.empty() || last.empty())
    return findings;
  int found = -1;
  std::vector<std::string> functions;
  bool isMoved = false, isRepeated = false;
  auto addOperation = [&](StringRef kind) {
    bool moves = words::is(kind, words::Trait::Reshapes);
    isMoved |= moves;
    isRepeated |= kind == "expand";
    if (isUnary(kind))
      functions.push_back(kind.str());
    return moves || kind == "expand" || isConversion(kind) || isUnary(kind);
  };
  for (const std::string &name : from) {
    if (std::optional<size_t> target = known.program.parameterNamed(name)) {
      if (found >= 0)
        return findings;
      found = *target;
    } else if (std::string kind = operationOf(name); !kind.empty() && !addOperation(kind)) {
      return findings; // names like val_3 are the exporter's own
    }
  }
  if (found < 0 || !known.isMissing(found) || !addOperation(last) || functions.empty() ||
      functions.size() > kMaxFunctions)
    return findings;
  std::optional<SmallVector<int64_t>> own = shapeBehind(known, value, found, /*isMoved=*/false);
  if (isRepeated && !own)
    return findings;
  Numbers once = isRepeated ? withoutRepeats(*value.numbers) : *value.numbers;
  auto asDoubles = [](ArrayRef<int64_t> shape) {
    return std::vector<double>(shape.begin(), shape.end());
  };
  auto firsts = functions.end() - (isUnary(last) ? 1 : 0);
  std::sort(functions.begin(), firsts);
  std::optional<std::pair<Expression, Solution>> only;
  do {
    Expression expression = Expression::ofInput();
    for (const std::string &function : functions)
      expression = Expression::of(function, std::move(expression));
    if (isMoved || isRepeated)
      expression = Expression::of("reshape", std::move(expression), asDoubles(once.shape));
    std::optional<Solution> solution =
        solve(known.program.context(), expression, {nullptr}, 0, once);
    if (!solution)
      continue;
    if (only)
      return findings;
    if (isRepeated)
      expression = Expression::of("expand", std::move(expression), asDoubles(value.numbers->shape));
    only = {std::move(expression), std::move(*solution)};
  } while (std::next_permutation(functions.begin(), firsts));
  if (!only)
    return findings;
  if (own)
    only->second.numbers.shape = *own;
  define(findings, Evidence::Chain, found, only->second.numbers,
         value.first().initializer->data_type());
  claimFolded(findings, known, value, size_t(found), only->first, Evidence::Chain);
  return findings;
}

/// Replaces input k by input k + 1.
static Expression shifted(Expression expression) {
  if (expression.op == "input")
    ++expression.input;
  for (Expression &operand : expression.operands)
    operand = shifted(std::move(operand));
  return expression;
}

/// Claims that a removed operation combines what a node reads with an expression of parameters.
static void claimRemoved(Findings &findings, const Known &known, Place place,
                         const std::string &name, const Reading &reading) {
  std::string op = operationOf(name);
  std::vector<std::string> names;
  for (size_t index : reading.parameters)
    names.push_back(known.parameter(index).name);
  StringRef sign = op == "add" ? "+ " : op == "sub" ? "- " : op == "mul" ? "* " : "/ ";
  findings.claim(
      Evidence::Source,
      RestoredClaim{place,
                    {Expression::of(op, Expression::ofInput(), shifted(reading.expression)),
                     reading.parameters},
                    name},
      messages::removedOperation(*place.first, displayName(name),
                                 sign.str() + reading.expression.text(names)));
}

/// Restores a removed operation with a parameter, such as `scale * x` of a scale of 1.
Findings rules::removedOperand(const Known &known, const RemovedRead &read) {
  Findings findings;
  std::string op = operationOf(read.name);
  Numbers neutral{{1}, {op == "mul" || op == "div" ? 1.0 : 0.0}};
  auto parameterOf = [&](StringRef path) { return known.parameterAt(read.scope, path); };
  std::optional<Match> match =
      matchOf(known, operandsOf({read.source, op, read.reader}, parameterOf), neutral, {},
              /*isNeutral=*/true);
  if (!match || (match->unknown >= 0 && read.mayBeMerged))
    return findings;
  Place place(read.node, read.operand);
  if (match->solution.part >= 0) {
    findings.claim(
        Evidence::Source,
        PartClaim{match->parameter(), match->solution, match->reading, {place}, 1, read.name});
    return findings;
  }
  if (match->unknown >= 0)
    define(findings, Evidence::Source, match->parameter(), match->solution.numbers, 1);
  claimRemoved(findings, known, place, read.name, match->reading);
  return findings;
}

/// Returns the folded value that a part was found in.
static const FoldedValue *valueOf(const Known &known, const PartClaim &part) {
  auto value = llvm::find_if(known.values, [&](const FoldedValue &one) {
    return one.places().front() == part.reads.front();
  });
  return part.removedName.empty() ? &*value : nullptr;
}

/// Defines parameters of which every part along the first dimension is known.
Findings rules::parts(const Known &known) {
  Findings findings;
  for (const auto &[index, matches] : known.parts) {
    std::map<int64_t, const Numbers *> found;
    const Numbers *shaped = nullptr; // a part whose shape is known
    int32_t dataType = 1;
    for (const PartClaim &part : matches) {
      found[part.solution.part] = &part.solution.numbers;
      if (part.removedName.empty()) {
        shaped = &part.solution.numbers;
        dataType = part.dataType;
      }
    }
    Numbers whole{{int64_t(found.size())}, {}};
    if (shaped)
      whole.shape.append(shaped->shape.begin(), shaped->shape.end());
    bool isWhole =
        !known.parameter(index).used && found.rbegin()->first + 1 == int64_t(found.size());
    for (auto [place, part] : found) {
      isWhole = isWhole && part->size() == found.begin()->second->size();
      whole.values.insert(whole.values.end(), part->values.begin(), part->values.end());
    }
    if (!isWhole)
      continue;
    define(findings, Evidence::Source, index, whole, dataType, /*mayBePart=*/true);
    for (const PartClaim &part : matches)
      if (const FoldedValue *value = valueOf(known, part))
        claimFolded(findings, known, *value, part.reading.parameters, part.reading.expression,
                    Evidence::Source);
      else
        claimRemoved(findings, known, part.reads.front(), part.removedName, part.reading);
    messages::mayHaveMoreParts(*findings.claims.back().remark, known.parameter(index).name,
                               found.size());
  }
  return findings;
}
