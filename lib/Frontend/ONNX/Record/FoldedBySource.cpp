//===- FoldedBySource.cpp - Folded values by the model's source -----------===//
#include "lib/Frontend/ONNX/Record/Folded.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

int FoldedParameters::parameterAt(StringRef scope, StringRef path) const {
  if (path.empty())
    return -1;
  std::string name = scope.empty() ? path.str() : (scope + "." + path).str();
  auto target = llvm::find(targets, name);
  size_t index = target - targets.begin();
  return target == targets.end() || isAlias[index] ? -1 : int(index);
}

/// Gives a parameter that is nowhere in the file its value.
void FoldedParameters::define(size_t index, const Numbers &numbers, int32_t dataType) {
  Parameter &parameter = out.list[index];
  parameter.shape.assign(numbers.shape.begin(), numbers.shape.end());
  parameter.dataType = dataType;
  parameter.values = numbers.values;
  parameter.used = true;
  cache.erase(index);
}

/// Returns the only reading that gives a constant. `from`: what the exporter lists as that from
/// which the value was folded, if it does. `isNeutral`: the constant is 0 or 1 of any shape.
std::optional<FoldedParameters::Match> FoldedParameters::matchOf(std::vector<Reading> readings,
                                                                 const Numbers &constant,
                                                                 ArrayRef<std::string> from,
                                                                 bool isNeutral) {
  std::set<size_t> listed;
  for (const std::string &name : from)
    if (auto target = llvm::find(targets, name); target != targets.end())
      listed.insert(target - targets.begin());
  std::optional<Match> found;
  for (Reading &reading : readings) {
    Match match;
    if (!from.empty() &&
        listed != std::set<size_t>(reading.parameters.begin(), reading.parameters.end()))
      continue;
    SmallVector<const Numbers *> inputs;
    bool isOpen = false;
    for (auto [k, index] : llvm::enumerate(reading.parameters)) {
      inputs.push_back(out.list[index].used ? numbersOf(index) : nullptr);
      if (inputs.back())
        continue;
      isOpen |= match.unknown >= 0 || !isMissing(index);
      match.unknown = k;
    }
    if (isOpen)
      continue;
    if (match.unknown < 0) {
      std::optional<Numbers> value = evaluate(program.context(), reading.expression, inputs);
      if (!value || (isNeutral ? value->size() != 1 : !isClose(*value, constant)))
        continue;
      double distance = std::abs(value->values[0] - constant.values[0]);
      if (isNeutral && !(distance <= (constant.values[0] == 1 ? kTakenForOne : kTakenForZero)))
        continue;
    } else {
      std::optional<Solution> solution =
          solve(program.context(), reading.expression, inputs, match.unknown, constant);
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
bool FoldedParameters::fromSource(Value &value) {
  if (!value.numbers)
    return false;
  const FoldedRead &read = value.first();
  auto parameterOf = [&](StringRef path) { return parameterAt(read.scope, path); };
  std::optional<Match> match = matchOf(readingsOf({read.source, read.op, read.reader}, parameterOf),
                                       *value.numbers, value.from, /*isNeutral=*/false);
  if (!match)
    return false;
  if (match->solution.part >= 0) {
    size_t index = match->reading.parameters[match->unknown];
    parts[index].push_back({std::move(*match), &value, nullptr});
    return false;
  }
  if (match->unknown >= 0)
    define(match->reading.parameters[match->unknown], match->solution.numbers,
           read.initializer->data_type());
  explain(value, match->reading.parameters, match->reading.expression);
  return true;
}

/// The number of functions of one operand whose order is searched.
static constexpr size_t kMaxFunctions = 4;

/// Explains a value by the names that the exporter lists as that from which it was folded: one
/// parameter that the file does not have otherwise, functions of one operand, movements that keep
/// the order of elements, and repeats. The list does not have the order of the functions, except
/// that the value's own operation is the last: only one order may have the values.
bool FoldedParameters::byChain(Value &value) {
  ArrayRef<std::string> from = value.from;
  StringRef last = value.first().op;
  if (!value.numbers || from.empty() || last.empty())
    return false;
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
    if (auto target = llvm::find(targets, name); target != targets.end()) {
      if (found >= 0)
        return false;
      found = target - targets.begin();
    } else if (std::string kind = operationOf(name); !kind.empty() && !addOperation(kind)) {
      return false; // names like val_3 are the exporter's own
    }
  }
  if (found < 0 || !isMissing(found) || !addOperation(last) || functions.empty() ||
      functions.size() > kMaxFunctions)
    return false;
  std::optional<SmallVector<int64_t>> own = shapeBehind(value, found, /*isMoved=*/false);
  if (isRepeated && !own)
    return false;
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
    std::optional<Solution> solution = solve(program.context(), expression, {nullptr}, 0, once);
    if (!solution)
      continue;
    if (only)
      return false;
    if (isRepeated)
      expression = Expression::of("expand", std::move(expression), asDoubles(value.numbers->shape));
    only = {std::move(expression), std::move(*solution)};
  } while (std::next_permutation(functions.begin(), firsts));
  if (!only)
    return false;
  if (own)
    only->second.numbers.shape = *own;
  define(found, only->second.numbers, value.first().initializer->data_type());
  explain(value, {size_t(found)}, only->first);
  return true;
}

/// Replaces input k by input k + 1.
static Expression shifted(Expression expression) {
  if (expression.op == "input")
    ++expression.input;
  for (Expression &operand : expression.operands)
    operand = shifted(std::move(operand));
  return expression;
}

void FoldedParameters::restoreOperation(const RemovedRead &read, const Match &match) {
  std::string op = operationOf(read.name);
  const Reading &reading = match.reading;
  out.restored[{read.node, read.operand}] = {
      Expression::of(op, Expression::ofInput(), shifted(reading.expression)), reading.parameters};
  restoredNames.insert(read.name);
  std::vector<std::string> names;
  for (size_t index : reading.parameters)
    names.push_back(out.list[index].name);
  StringRef sign = op == "add" ? "+ " : op == "sub" ? "- " : op == "mul" ? "* " : "/ ";
  out.repairs.push_back({read.node, "'" + displayName(read.name) +
                                        "', which the export removed, is restored: " + sign.str() +
                                        reading.expression.text(names)});
}

void FoldedParameters::restoreRemoved(ArrayRef<RemovedRead> reads) {
  for (const RemovedRead &read : reads) {
    std::string op = operationOf(read.name);
    Numbers neutral{{1}, {op == "mul" || op == "div" ? 1.0 : 0.0}};
    auto parameterOf = [&](StringRef path) { return parameterAt(read.scope, path); };
    std::optional<Match> match =
        matchOf(operandsOf({read.source, op, read.reader}, parameterOf), neutral, {},
                /*isNeutral=*/true);
    if (!match || (match->unknown >= 0 && read.mayBeMerged))
      continue;
    size_t index = match->unknown < 0 ? 0 : match->reading.parameters[match->unknown];
    if (match->solution.part >= 0) {
      parts[index].push_back({std::move(*match), nullptr, &read});
      continue;
    }
    if (match->unknown >= 0)
      define(index, match->solution.numbers, 1);
    restoreOperation(read, *match);
  }
}

/// Defines parameters of which every part along the first dimension is known.
void FoldedParameters::restoreParts() {
  for (auto &[index, matches] : parts) {
    std::map<int64_t, const Numbers *> known;
    const Numbers *shaped = nullptr; // a part whose shape is known
    int32_t dataType = 1;
    for (const PartMatch &part : matches) {
      known[part.match.solution.part] = &part.match.solution.numbers;
      if (part.value) {
        shaped = &part.match.solution.numbers;
        dataType = part.value->first().initializer->data_type();
      }
    }
    Numbers whole{{int64_t(known.size())}, {}};
    if (shaped)
      whole.shape.append(shaped->shape.begin(), shaped->shape.end());
    bool isWhole = !out.list[index].used && known.rbegin()->first + 1 == int64_t(known.size());
    for (auto [place, part] : known) {
      isWhole = isWhole && part->size() == known.begin()->second->size();
      whole.values.insert(whole.values.end(), part->values.begin(), part->values.end());
    }
    if (!isWhole)
      continue;
    define(index, whole, dataType);
    out.list[index].mayBePart = true;
    for (const PartMatch &part : matches)
      if (part.value)
        explain(*part.value, part.match.reading.parameters, part.match.reading.expression);
      else
        restoreOperation(*part.removed, part.match);
    out.repairs.back().isNote = true;
    out.repairs.back().text +=
        ". The " + std::to_string(known.size()) + " parts of '" + out.list[index].name +
        "' that the graph reads are trained and written: if there are more, export with optimize=False";
  }
}
