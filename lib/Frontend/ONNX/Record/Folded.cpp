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
#include "lib/Frontend/ONNX/Record/Folded.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <numeric>
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

namespace {

/// Whether the line of source contains `word` as a whole word; if it starts with '.', only its end
/// is checked.
bool mentions(StringRef line, StringRef word) {
  for (size_t at = line.find(word); at != StringRef::npos; at = line.find(word, at + 1)) {
    auto isWord = [&](size_t i) {
      return i < line.size() && (llvm::isAlnum(line[i]) || line[i] == '_');
    };
    if ((word.front() == '.' || at == 0 || !isWord(at - 1)) && !isWord(at + word.size()))
      return true;
  }
  return false;
}

/// Whether one module contains the other or both are the same.
bool areNested(StringRef a, StringRef b) {
  auto contains = [](StringRef outer, StringRef inner) {
    return outer.empty() || inner == outer ||
           (inner.starts_with(outer) && inner[outer.size()] == '.');
  };
  return contains(a, b) || contains(b, a);
}

bool isConstant(const Numbers &numbers) {
  return llvm::all_of(numbers.values,
                      [&](double value) { return value == numbers.values.front(); });
}

} // namespace

bool FoldedParameters::isMissing(size_t index) const {
  return out.list[index].isParameter && !out.list[index].used && !isAlias[index];
}

bool FoldedParameters::isFrozen(size_t index) const {
  return options.freezes(out.list[index].name);
}

/// Returns the elements of a parameter that the file has, in PyTorch's layout; null for other
/// parameters.
const Numbers *FoldedParameters::numbersOf(size_t index) {
  auto [it, isNew] = cache.try_emplace(index);
  const Parameter &parameter = out.list[index];
  if (isNew && parameter.initializer) {
    it->second = program.numbersOf(*parameter.initializer);
    if (it->second && !parameter.shape.empty())
      it->second->shape.assign(parameter.shape.begin(), parameter.shape.end());
    if (it->second && parameter.transposed) {
      Numbers turned = *it->second;
      int64_t rows = turned.shape[1], columns = turned.shape[0];
      turned.shape = {rows, columns};
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          turned.values[r * columns + c] = it->second->values[c * rows + r];
      it->second = std::move(turned);
    }
  } else if (isNew && parameter.used && !parameter.values.empty()) {
    it->second = Numbers{SmallVector<int64_t>(parameter.shape.begin(), parameter.shape.end()),
                         parameter.values};
  }
  return it->second ? &*it->second : nullptr;
}

Numbers onnx::withoutRepeats(const Numbers &numbers) {
  ArrayRef<double> all = numbers.values;
  ArrayRef<int64_t> shape = numbers.shape;
  Numbers once{SmallVector<int64_t>(shape), {}, numbers.tolerance};
  int64_t inner = 1;
  for (size_t d = shape.size(); d-- > 0; inner *= shape[d]) {
    bool repeats = shape[d] > 1;
    for (int64_t i = 0; repeats && i < int64_t(all.size()); ++i)
      repeats = all[i] == all[i - i / inner % shape[d] * inner];
    if (repeats)
      once.shape[d] = 1;
  }
  int64_t count =
      std::accumulate(once.shape.begin(), once.shape.end(), int64_t(1), std::multiplies<int64_t>());
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, place = 0, stride = 1;
    for (size_t d = shape.size(); d-- > 0; rest /= once.shape[d], stride *= shape[d])
      place += rest % once.shape[d] * stride;
    once.values.push_back(all[place]);
  }
  return once;
}

void FoldedParameters::explainAs(Value &value, const ParameterUse &use) {
  for (const FoldedRead &read : value.reads)
    out.uses[{read.node, read.operand}] = use;
  value.explained = true;
}

void FoldedParameters::explain(Value &value, ArrayRef<size_t> parameters,
                               const Expression &expression) {
  const Movement &movement = expression.movement;
  bool plain = expression.op == "input" ||
               (expression.op == "move" && expression.operands[0].op == "input" &&
                movement.keepsElements() && movement.split == movement.shape);
  int number = -1;
  if (!plain) {
    number = out.expressions.size();
    out.expressions.push_back(expression);
  }
  explainAs(value, {parameters[0], false, number, parameters.drop_front().vec()});
  std::vector<std::string> names;
  for (size_t index : parameters)
    names.push_back(out.list[index].name);
  out.repairs.push_back({value.first().node, "'" + displayName(value.first().name) +
                                                 "', which the export folded, is " +
                                                 expression.text(names) + " again"});
}

/// Explains a read of an initializer with a parameter's name: an operation that changed nothing was
/// removed, and the node reads the parameter itself.
bool FoldedParameters::byName(Value &value) {
  const FoldedRead &read = value.first();
  auto target = llvm::find(targets, read.initializer->name());
  bool isNamed = read.name == read.initializer->name();
  if (target == targets.end() || !(isNamed || read.mayBeMoved()))
    return false;
  size_t index = target - targets.begin();
  Parameter &parameter = out.list[index];
  // Equal constants are merged under one name, so the parameter may be another one.
  bool merged = !value.numbers || isConstant(*value.numbers);
  if (parameter.used ? merged || parameter.initializer != read.initializer || parameter.transposed
                     : merged && isNamed)
    return false;
  parameter.initializer = read.initializer;
  parameter.used = true;
  for (const FoldedRead &one : value.reads)
    out.uses[{one.node, one.operand}] = {index, false, -1};
  value.explained = true;
  return true;
}

/// Whether the value may be the same function of another parameter that began with equal elements:
/// nothing lists what it was folded from. A value that was merged with an equal one may be of a
/// parameter that is missing.
bool FoldedParameters::mayBeOfAnother(const Value &value, size_t index) {
  const FoldedRead &read = value.first();
  if (!value.from.empty())
    return false;
  bool isMerged = read.name != read.initializer->name();
  for (size_t other = 0; other < out.list.size(); ++other)
    if (other != index && out.list[other].isParameter &&
        areNested(moduleOf(targets[other]), read.scope) &&
        (isMissing(other) ? isMerged : out.list[other].used && haveEqualValues(index, other)))
      return true;
  return false;
}

/// Explains a value as a simple function of a parameter that the file has.
bool FoldedParameters::byValue(Value &value) {
  if (!value.numbers || value.first().isComputed)
    return false;
  ArrayRef<std::string> from = value.from;
  // The same module is tried first: a function fits more than one parameter only by accident.
  for (bool sameModule : {true, false})
    for (size_t index = 0; index < out.list.size(); ++index) {
      if (!out.list[index].isParameter || !out.list[index].used ||
          (moduleOf(targets[index]) == value.first().scope) != sameModule ||
          (!from.empty() && !llvm::is_contained(from, targets[index])))
        continue;
      const Numbers *parameter = numbersOf(index);
      if (!parameter || parameter->size() < value.numbers->size() / 64)
        continue;
      std::optional<Expression> expression =
          fitExpression(*parameter, *value.numbers, value.first().op);
      // A table is an affine function of any parameter that was initialized the same way. Modules
      // compute only with their own parameters, or those of an enclosing or nested module.
      if (!expression ||
          (!expression->movesOnly() && ((value.first().mayBeMoved() && value.isTable()) ||
                                        !areNested(moduleOf(targets[index]), value.first().scope))))
        continue;
      if (mayBeOfAnother(value, index))
        return false;
      explain(value, index, *expression);
      return true;
    }
  return false;
}

/// Whether a parameter that is nowhere in the file may be the source of a moved constant; `named`:
/// its module reads the constant, or the line of source names it.
bool FoldedParameters::isCandidate(const Value &value, size_t index, bool named) {
  const FoldedRead &read = value.first();
  // A table that is looked up is the weight of a module, and the model's source names the module.
  bool looksUp = read.op == "embedding";
  if (!isMissing(index) || (looksUp && lastOf(targets[index]) != "weight"))
    return false;
  int turns;
  if (int origin = originOf(value, turns); origin >= 0)
    return origin == int(index);
  StringRef target = looksUp ? moduleOf(targets[index]) : StringRef(targets[index]);
  // Single numbers and copies are just as often literals of the model's code
  // (`torch.tensor(-1e4)`).
  if (isScalar(*read.initializer) || words::is(read.op, words::Trait::CopiesLiteral))
    return mentions(read.source, ("." + lastOf(target)).str());
  if (mentions(read.source, lastOf(target)))
    return !named || moduleOf(target) == read.scope;
  if (!looksUp && value.isTable()) // apparently computed by code
    return false;
  return named ? moduleOf(target) == read.scope : areNested(moduleOf(target), read.scope);
}

/// Makes a moved constant the value of parameter `index`. A dimension along which nothing changes
/// was repeated, and has one element. Fails if elements seem to occur several times in another way:
/// their gradients would have to be added up.
bool FoldedParameters::take(Value &value, size_t index) {
  Parameter &parameter = out.list[index];
  const TensorProto *tensor = value.first().initializer;
  if (std::optional<SmallVector<int64_t>> whole = shapeBehind(value, index, /*isMoved=*/true)) {
    takeWhole(value, index, *whole);
    return true;
  }
  if (isComputed(value))
    return false;
  // Operations that were removed may have read other parts.
  bool isPart = words::is(value.first().op, words::Trait::TakesPart);
  if (isPart && llvm::any_of(removed, [&](auto &operation) {
        return operation.scope == value.first().scope ||
               operation.scope == moduleOf(targets[index]);
      }))
    return false;
  SmallVector<int64_t> shape(tensor->dims().begin(), tensor->dims().end()), kept = shape;
  if (value.numbers && isConstant(*value.numbers)) {
    // It may be a repetition of fewer elements, unless a line of source reads the whole parameter
    // and its type was converted.
    const FoldedRead &read = value.first();
    bool isWhole = isConversion(read.op) &&
                   mentions(read.source, ("." + lastOf(targets[index])).str()) &&
                   !mentions(read.source, ".expand") && !mentions(read.source, ".repeat") &&
                   moduleOf(targets[index]) == read.scope;
    if (value.numbers->size() > 1 && read.op != "embedding" && !isWhole)
      return false;
  } else if (value.numbers) {
    Numbers part = withoutRepeats(*value.numbers);
    std::vector<double> &once = part.values;
    kept = part.shape;
    if (std::set<double>(once.begin(), once.end()).size() * 10 < once.size() * 9)
      return false;
    if (kept != shape) {
      parameter.shape.assign(kept.begin(), kept.end());
      parameter.values = std::move(once);
      parameter.dataType = tensor->data_type();
    }
  }
  // A table is a list of rows, whatever the shape of the lookup.
  bool isLookup = value.first().op == "embedding" && kept.size() > 2;
  SmallVector<int64_t> own = kept;
  if (isLookup) {
    own = {std::accumulate(kept.begin(), kept.end() - 1, int64_t(1), std::multiplies<int64_t>()),
           kept.back()};
    parameter.shape.assign(own.begin(), own.end());
  }
  bool turned = turnsElements(value.first().op);
  bool wasTurned = llvm::any_of(value.from, [&](const std::string &name) {
    return turnsElements(operationOf(name)) && !llvm::is_contained(targets, name);
  });
  if (wasTurned || (turned && (shape.size() != 2 || kept != shape)))
    return false; // its layout is not known
  if (kept == shape)
    parameter.initializer = tensor;
  parameter.used = true;
  parameter.mayBePart = isPart;
  parameter.transposed = turned;
  Expression expression = Expression::of("move", Expression::ofInput());
  expression.movement = reshapeTo(own, kept);
  expression.movement.shape.assign(shape.begin(), shape.end());
  explain(value, index, expression);
  for (const FoldedRead &read : value.reads)
    out.uses[{read.node, read.operand}].transposed = turned;
  out.repairs.back().text = "parameter '" + parameter.name +
                            "', which the export folded, is restored from initializer '" +
                            displayName(tensor->name()) +
                            "': the part that the graph reads is trained and written";
  // The other movements may have changed its shape.
  bool isAsItIs =
      turned || isConversion(value.first().op) || words::is(value.first().op, words::Trait::Copies);
  if (!isAsItIs) {
    out.repairs.back().isNote = true;
    out.repairs.back().text +=
        ", [" +
        llvm::join(llvm::map_range(own, [](int64_t size) { return std::to_string(size); }), ", ") +
        "]. Where that is not the whole, export with optimize=False or with a free size";
  }
  return true;
}

/// Finds parameters that are nowhere in the file: a constant with only one candidate, which is the
/// candidate of no other constant, is that parameter. A module that is called twice folds into one
/// constant under two names, by the same kind of operation.
void FoldedParameters::byElimination() {
  for (bool named : {true, false}) {
    std::map<Value *, SmallVector<size_t>> candidates;
    std::map<size_t, SmallVector<Value *>> wanted;
    for (Value &value : values) {
      if (value.explained || !isMovement(value.first().op))
        continue;
      for (size_t index = 0; index < out.list.size(); ++index)
        if (isCandidate(value, index, named)) {
          candidates[&value].push_back(index);
          wanted[index].push_back(&value);
        }
    }
    for (auto &[index, list] : wanted) {
      Value &first = *list.front();
      bool areSame = llvm::all_of(list, [&](Value *value) {
        return candidates[value].size() == 1 && value->first().op == first.first().op &&
               value->first().initializer == first.first().initializer;
      });
      if (!areSame || !take(first, index))
        continue;
      for (Value *value : llvm::drop_begin(list)) {
        const FoldedRead &read = first.first();
        explainAs(*value, out.uses[{read.node, read.operand}]);
      }
    }
  }
}

void FoldedParameters::restore(std::vector<FoldedRead> reads, ArrayRef<RemovedRead> removedReads,
                               std::vector<RemovedOperation> operations, ArrayRef<bool> aliases) {
  isAlias = aliases;
  removed = std::move(operations);
  for (FoldedRead &read : reads) {
    if (options.constants.contains(read.initializer->name()))
      continue;
    auto same = llvm::find_if(values, [&](const Value &value) {
      return value.first().initializer == read.initializer && value.first().name == read.name &&
             value.first().scope == read.scope;
    });
    if (same == values.end())
      same = values.insert(values.end(),
                           Value{{}, program.numbersOf(*read.initializer), foldedFrom(read)});
    same->reads.push_back(std::move(read));
  }
  for (Value &value : values)
    if (isMadeByCode(value.first().op))
      value.explained = true;
    else if (!byName(value) && !byOrigin(value) && !fromSource(value) && !byValue(value) &&
             !byChain(value) && value.numbers && isMask(*value.numbers))
      value.explained = true;
  restoreRemoved(removedReads);
  restoreParts();
  byElimination();
  byTwin();
  // What was restored just now may explain more.
  for (Value &value : values)
    if (!value.explained)
      byValue(value);
}

bool FoldedParameters::isExplained() const {
  return llvm::all_of(values,
                      [](const Value &value) { return value.explained || value.isTable(); });
}

void FoldedParameters::report(ArrayRef<bool> aliases,
                              const llvm::SmallSetVector<size_t, 4> &operands,
                              ArrayRef<RemovedOperation> hidden) {
  isAlias = aliases;
  auto add = [](std::vector<std::string> &list, std::string name) {
    if (!llvm::is_contained(list, name))
      list.push_back(std::move(name));
  };
  std::vector<std::string> lost, unused, left, tables;
  for (size_t index = 0; index < out.list.size(); ++index) {
    if (!isMissing(index))
      continue;
    if (lastOf(targets[index]).starts_with("weight_hr_l")) {
      out.errors.push_back("parameter '" + displayName(out.list[index].name) +
                           "' is the projection of an LSTM with proj_size, and PyTorch's exporter "
                           "leaves it out: the file computes another model. Write the steps of "
                           "this LSTM in single operations");
      return;
    }
    out.absent.push_back(out.list[index].name);
    if (isFrozen(index))
      continue;
    bool mayBeFolded = false;
    for (const Value &value : values) {
      // If a value has a list of what it was folded from, the list is complete.
      ArrayRef<std::string> from = value.from;
      if (value.explained || (!from.empty() && !llvm::is_contained(from, targets[index])))
        continue;
      mayBeFolded = true;
      add(value.isTable() ? tables : left, displayName(value.first().initializer->name()));
    }
    bool isLost = mayBeFolded || !hidden.empty() || operands.contains(index);
    (isLost ? lost : unused).push_back(displayName(out.list[index].name));
  }
  // A table is the least likely to come from a parameter.
  if (left.empty())
    left = tables;
  bool areConstants = !left.empty(); // else operations, which --constant cannot name
  if (left.empty())
    for (const RemovedOperation &operation : hidden)
      add(left, displayName(operation.name));
  auto are = [](const std::vector<std::string> &names) {
    return (names.size() == 1 ? "parameter " : "parameters ") + listOf(names) +
           (names.size() == 1 ? " is" : " are");
  };
  if (!unused.empty())
    out.notes.push_back(are(unused) + " not used by the loss: not trained and not written");
  if (!lost.empty()) {
    std::string them = lost.size() == 1 ? "it" : "them";
    out.errors.push_back(
        are(lost) +
        " listed but not in the graph: the export may have folded or left out what reads " + them +
        (left.empty() ? "" : " (" + listOf(left) + ")") + ", and then training would leave " +
        them + " out. Export with torch.onnx.export(..., optimize=False), " +
        (areConstants ? "" : "or ") + "pass --freeze for what is not to be trained" +
        (areConstants ? ", or --constant NAME for a constant that depends on no parameter" : ""));
  }
  for (const Value &value : values) {
    if (value.explained)
      continue;
    std::string constant = displayName(value.first().initializer->name());
    if (int index = parameterBehind(value); index >= 0 && !isFrozen(index) && !isMissing(index)) {
      out.errors.push_back(
          "node '" + displayName(value.first().node->name()) + "' reads the constant '" + constant +
          "', which the export computed from parameter '" + displayName(out.list[index].name) +
          "'" + (value.from.empty() ? " or one of equal value" : "") +
          ": the parameter would get no gradient from this use. Export with "
          "torch.onnx.export(..., optimize=False), or pass --constant " +
          constant + " to leave this gradient out");
      continue;
    }
    // In a file with such lists, a number without one is a literal of the model's code.
    ArrayRef<std::string> from = value.from;
    bool isLiteral = from.empty() ? program.listsOrigins() && value.first().isOpen() &&
                                        isScalar(*value.first().initializer)
                                  : parameterBehind(value) < 0;
    if (!value.numbers || value.isTable() || isLiteral)
      continue;
    for (size_t index = 0; index < out.list.size(); ++index) {
      if (!out.list[index].isParameter || !out.list[index].used || isFrozen(index) ||
          moduleOf(targets[index]) != value.first().scope)
        continue;
      const Numbers *parameter = numbersOf(index);
      if (!parameter || parameter->size() != value.numbers->size())
        continue;
      out.errors.push_back(
          "node '" + displayName(value.first().node->name()) + "' reads the constant '" + constant +
          "', which the export may have computed from parameter '" +
          displayName(out.list[index].name) +
          "' of the same module (equal numbers of elements). The parameter would get no gradient from this use. Export with "
          "torch.onnx.export(..., optimize=False)" +
          (llvm::is_contained(targets, value.first().initializer->name()) // --constant freezes it
               ? ""
               : ", or pass --constant " + constant + " if it depends on no parameter"));
      break;
    }
  }
}
