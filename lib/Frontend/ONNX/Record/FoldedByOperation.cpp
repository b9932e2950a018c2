//===- FoldedByOperation.cpp - Folded values of one recorded operation ----===//
//
// The exporter lists the names from which it folded a value: parameters, values of the exported
// program, and values of its own (val_3). A constant of equal elements is merged with the first one
// and has no list. A value is computed again only where the record has its one operation with all
// operands.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

static bool turnsElements(StringRef kind) { return words::is(kind, words::Trait::Turns); }

/// Returns the only parameter from which the exporter's metadata says that a value was folded; -1
/// if there is none, or more than one. Sets `turns` to the number of consecutive folded transposes,
/// or to -1 if there was something else.
static int originOf(const Known &known, const FoldedValue &value, int &turns) {
  int found = -1;
  turns = turnsElements(value.first().op) ? 1 : -1;
  for (const std::string &name : value.from) {
    if (std::optional<size_t> target = known.program.parameterNamed(name)) {
      if (found >= 0)
        return -1;
      found = *target;
    } else if (turnsElements(operationOf(name)) && turns > 0) {
      ++turns;
    } else {
      turns = -1;
    }
  }
  return found >= 0 && known.parameter(found).isParameter && !known.isAlias[found] ? found : -1;
}

int onnx::parameterBehind(const Known &known, const FoldedValue &value) {
  ArrayRef<std::string> from = value.from;
  if (from.empty())
    from = known.program.foldedFrom(value.first().initializer->name());
  for (const std::string &name : from)
    if (std::optional<size_t> target = known.program.parameterNamed(name);
        target && known.parameter(*target).isParameter)
      return *target;
  return -1;
}

/// Whether a node multiplies by a value that the exporter transposed for it: the weight of
/// aten.linear, which ONNX's products have the other way around.
static bool readsTurned(const NodeProto &node, int operand) {
  return StringRef(readFxNode(node).target).starts_with(words::kLinear) && operand == 1 &&
         llvm::none_of(node.attribute(), [](const AttributeProto &attribute) {
           return attribute.name() == "transB" && attribute.i() != 0;
         });
}

/// Whether a parameter, transposed or not, has the elements of a constant.
static bool givesConstant(const Numbers &parameter, bool transposed, const Numbers &constant) {
  if (parameter.shape.size() != 2 || parameter.size() != constant.size())
    return false;
  int64_t rows = parameter.shape[0], columns = parameter.shape[1];
  for (int64_t i = 0; i < parameter.size(); ++i)
    if (parameter.values[i] != constant.values[transposed ? i % columns * rows + i / columns : i])
      return false;
  return true;
}

/// Explains a transpose, or a transpose of that, of a parameter that the exporter's metadata names.
/// A graph that computes gradients reads both.
Findings rules::byOrigin(const Known &known, const FoldedValue &value) {
  Findings findings;
  int turns = -1, index = originOf(known, value, turns);
  const FoldedRead &read = value.first();
  if (index < 0 || turns < 1 || read.initializer->dims_size() != 2)
    return findings;
  // A constant of another name was made of the value by nodes of the exporter's own.
  if (read.name != read.initializer->name() && !readsTurned(*read.node, read.operand))
    return findings;
  bool transposed = (turns + (read.name != read.initializer->name())) % 2;
  const Numbers *parameter =
      known.parameter(index).used && value.numbers ? known.numbersOf(index) : nullptr;
  if (parameter && !givesConstant(*parameter, transposed, *value.numbers))
    return findings;
  findings.claim(
      Evidence::Origin, ValueClaim{size_t(index), {value.first().initializer, transposed}},
      messages::restoredFrom(value.first(), known.parameter(index).name, transposed, ""));
  findings.claim(Evidence::Origin, ReadClaim{size_t(index), value.places(), transposed});
  return findings;
}

/// Whether the list of a value has, besides the exporter's own values, one parameter and operations
/// of these kinds only; "buffer" is that of buffers. Sets `index` to the parameter.
static bool isOf(const Known &known, const FoldedValue &value, int &index,
                 llvm::function_ref<bool(StringRef)> isKind) {
  index = -1;
  for (const std::string &name : value.from)
    if (std::optional<size_t> target = known.program.parameterNamed(name);
        target && known.parameter(*target).isParameter) {
      if (index >= 0)
        return false;
      index = *target;
    } else if (target) {
      if (!isKind("buffer"))
        return false;
    } else if (std::string kind = operationOf(name); !kind.empty() && !isKind(kind)) {
      return false;
    }
  return index >= 0;
}

/// Whether no other constant was folded from the parameter.
static bool isOnlyOne(const Known &known, const FoldedValue &value, size_t index) {
  return llvm::all_of(known.values, [&](const FoldedValue &other) {
    return other.first().initializer == value.first().initializer ||
           !llvm::is_contained(other.from, known.target(index));
  });
}

static InitialValue valueOf(const FoldedValue &value) {
  const TensorProto &tensor = *value.first().initializer;
  InitialValue initial{&tensor};
  initial.shape = std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end());
  initial.dataType = tensor.data_type();
  return initial;
}

/// Claims that reads of a constant are reads of a parameter of these sizes in another shape.
static void claimPart(Findings &findings, const Known &known, const FoldedValue &value,
                      size_t index, std::vector<int64_t> shape, std::vector<double> elements = {}) {
  const auto &dims = value.first().initializer->dims();
  InitialValue initial = valueOf(value);
  bool isRepeated = !elements.empty();
  if (isRepeated)
    initial.initializer = nullptr;
  initial.values = std::move(elements);
  initial.shape = shape;
  Repair remark = messages::foldedPart(value, known.parameter(index).name, shape);
  findings.claim(Evidence::Operation, ValueClaim{index, std::move(initial)});
  ReadClaim read{index, value.places()};
  if (!llvm::equal(shape, dims))
    read.expression = Expression::of(isRepeated ? "expand" : "reshape", Expression::ofInput(),
                                     {dims.begin(), dims.end()});
  findings.claim(Evidence::Operation, std::move(read), std::move(remark));
}

/// Claims that reads of a constant are reads of a function of a parameter.
static void claimFunction(Findings &findings, const Known &known, const FoldedValue &value,
                          size_t index, Expression function) {
  Repair remark = messages::foldedAgain(value, function, known.parameter(index).name);
  ReadClaim read{index, value.places()};
  read.expression = std::move(function);
  findings.claim(Evidence::Operation, std::move(read), std::move(remark));
}

/// Whether no two rows of the last dimension are equal.
static bool hasDistinctRows(const Numbers &numbers) {
  size_t width = numbers.shape.empty() ? 0 : numbers.shape.back();
  std::set<std::vector<double>> rows;
  for (size_t at = 0; width && at < numbers.values.size(); at += width)
    if (!rows.emplace(numbers.values.begin() + at, numbers.values.begin() + at + width).second)
      return false;
  return width > 0;
}

/// Explains what has each element of a parameter at most once: rows that a table is looked up at,
/// `wpe(torch.arange(T))`, if no two are equal, and slices, `self.pos[:, :T]`. What the graph reads
/// is trained.
Findings rules::byPart(const Known &known, const FoldedValue &value) {
  Findings findings;
  StringRef op = value.first().op;
  int index;
  bool looksUp = op == "embedding" && value.numbers && hasDistinctRows(*value.numbers);
  bool isPart = (looksUp || op == "slice") && isOf(known, value, index, [&](StringRef kind) {
                  return kind == "slice" ||
                         (looksUp && (kind == "buffer" || isMovement(kind) || isMadeByCode(kind)));
                });
  if (!isPart || !known.isMissing(index) || !isOnlyOne(known, value, index))
    return findings;
  const auto &dims = value.first().initializer->dims();
  std::vector<int64_t> shape(dims.begin(), dims.end());
  if (looksUp)
    shape = {value.numbers->size() / shape.back(), shape.back()};
  claimPart(findings, known, value, index, std::move(shape));
  return findings;
}

/// Explains a parameter that is repeated along one dimension, `self.cls.expand(n, -1, -1)`. Where
/// the elements are equal along a second one, it is not known which was repeated.
Findings rules::byRepeat(const Known &known, const FoldedValue &value) {
  Findings findings;
  int index;
  if (value.first().op != "expand" || !value.numbers ||
      !isOf(known, value, index, [](StringRef) { return false; }) || !known.isMissing(index) ||
      !isOnlyOne(known, value, index))
    return findings;
  const Numbers &all = *value.numbers;
  std::optional<size_t> repeated;
  int64_t inner = 1, stride = 0;
  for (size_t d = all.shape.size(); d-- > 0; inner *= all.shape[d]) {
    bool repeats = all.shape[d] > 1;
    for (int64_t i = 0; repeats && i < all.size(); ++i)
      repeats = all.values[i] == all.values[i - i / inner % all.shape[d] * inner];
    if (repeats && repeated)
      return findings;
    if (repeats)
      repeated = d, stride = inner;
  }
  if (!repeated)
    return findings;
  std::vector<int64_t> shape(all.shape.begin(), all.shape.end());
  std::vector<double> once;
  for (int64_t i = 0; i < all.size(); ++i)
    if (i / stride % shape[*repeated] == 0)
      once.push_back(all.values[i]);
  shape[*repeated] = 1;
  claimPart(findings, known, value, index, std::move(shape), std::move(once));
  return findings;
}

/// Explains the exponential of a parameter alone, `self.logit_scale.exp()`.
Findings rules::byFunction(const Known &known, const FoldedValue &value) {
  Findings findings;
  int index;
  if (value.first().op != "exp" || !value.numbers || value.from.size() != 1 ||
      !isOf(known, value, index, [](StringRef) { return false; }) || !known.isMissing(index) ||
      !isOnlyOne(known, value, index))
    return findings;
  InitialValue initial = valueOf(value);
  initial.initializer = nullptr;
  for (double element : value.numbers->values)
    if (!std::isfinite(initial.values.emplace_back(std::log(element))))
      return findings;
  findings.claim(Evidence::Operation, ValueClaim{size_t(index), std::move(initial)});
  claimFunction(findings, known, value, index, Expression::of("exp", Expression::ofInput()));
  return findings;
}

/// Explains a constant that was merged with one of equal elements, which the same operation made of
/// the only parameter that has these values: a module that is called twice.
Findings rules::byMerged(const Known &known, const FoldedValue &value) {
  Findings findings;
  const FoldedRead &read = value.first();
  bool isMerged = value.from.empty() && read.name != read.initializer->name() && !read.op.empty() &&
                  read.op == operationOf(read.initializer->name());
  if (!isMerged || !value.numbers || isConstant(*value.numbers))
    return findings;
  for (const FoldedValue &other : known.values) {
    auto use = known.found.uses.find(other.places().front());
    if (other.first().initializer != read.initializer || other.from.empty() ||
        use == known.found.uses.end())
      continue;
    for (size_t index = 0; index < known.found.list.size(); ++index)
      if (index != use->second.parameter &&
          (known.isMissing(index) || known.haveEqualValues(index, use->second.parameter)))
        return findings;
    ReadClaim claim{use->second.parameter, value.places(), use->second.transposed};
    if (use->second.expression >= 0)
      claim.expression = known.found.expressions[use->second.expression];
    findings.claim(Evidence::Elimination, std::move(claim));
    return findings;
  }
  return findings;
}

/// Returns the only parameter of a module; -1 if it has none, or several.
static int onlyParameterOf(const Known &known, StringRef module) {
  int found = -1;
  for (size_t index = 0; index < known.found.list.size(); ++index)
    if (moduleOf(known.target(index)) == module) {
      if (found >= 0)
        return -1;
      found = index;
    }
  return found;
}

/// Returns the number that a value of the exporter's own is: that of a constant which is it, or
/// which was folded from it alone, in another type or shape. None if the file has no such constant.
static std::optional<double> recordedNumber(const TracedProgram &program, StringRef value) {
  for (const TensorProto &tensor : program.graph().initializer()) {
    ArrayRef<std::string> from = program.foldedFrom(tensor.name());
    if (!isScalar(tensor) || !(tensor.name() == value || (from.size() == 1 && from[0] == value)))
      continue;
    if (std::optional<Numbers> numbers = program.numbersOf(tensor))
      return numbers->values.front();
  }
  return std::nullopt;
}

/// Returns the only value of the exporter's own in a list; empty if it has none, or several.
static StringRef ownValueIn(ArrayRef<std::string> from, const TracedProgram &program) {
  StringRef found;
  for (StringRef name : from)
    if (!program.parameterNamed(name) && operationOf(name).empty()) {
      if (!found.empty())
        return "";
      found = name;
    }
  return found;
}

/// Explains a number that the file has minus a parameter that it has, `1 - self.mu`: computed
/// again, it gives the constant.
Findings rules::byDifference(const Known &known, const FoldedValue &value) {
  Findings findings;
  int index;
  if (value.first().op != "sub" || !isOf(known, value, index, isMadeByCode))
    return findings;
  std::optional<double> number =
      recordedNumber(known.program, ownValueIn(value.from, known.program));
  const Numbers *parameter = known.parameter(index).used ? known.numbersOf(index) : nullptr;
  if (!number || !parameter || !value.numbers || parameter->shape != value.numbers->shape)
    return findings;
  for (auto [folded, own] : llvm::zip(value.numbers->values, parameter->values))
    if (float(*number) - float(own) != float(folded))
      return findings;
  claimFunction(findings, known, value, index,
                Expression::of("sub", Expression::ofNumber(*number), Expression::ofInput()));
  return findings;
}

/// Returns the class of the module that a node is of.
static std::string classOf(const NodeProto &node) {
  auto classes = readClasses(node);
  return classes.empty() ? "" : classes.back().second;
}

/// Returns the list of what a value was folded from, or of what a value of equal elements was, with
/// which it was merged, and which a module of the same class reads: the same code made both.
static ArrayRef<std::string> originsOf(const Known &known, const FoldedValue &value) {
  if (!value.from.empty())
    return value.from;
  for (const FoldedValue &other : known.values)
    if (other.first().initializer == value.first().initializer && !other.from.empty() &&
        other.first().op == value.first().op && !classOf(*other.first().node).empty() &&
        classOf(*other.first().node) == classOf(*value.first().node))
      return other.from;
  return {};
}

/// Explains the sum of a number and the only parameter of a module, as norms write their weight:
/// `x * (1.0 + self.weight)`, or that parameter converted. The record has the operation, the
/// parameter and the number.
Findings rules::bySum(const Known &known, const FoldedValue &value) {
  Findings findings;
  const FoldedRead &read = value.first();
  int index = onlyParameterOf(known, read.scope);
  ArrayRef<std::string> from = originsOf(known, value);
  if (!value.numbers || index < 0 || !known.isMissing(index) ||
      read.op != operationOf(read.initializer->name()))
    return findings;
  size_t parameters = 0, own = 0;
  for (StringRef name : from) {
    std::string kind = operationOf(name);
    std::optional<size_t> target = known.program.parameterNamed(name);
    if (target ? !value.from.empty() && int(*target) != index
               : !kind.empty() && !isMadeByCode(kind) && !isConversion(kind))
      return findings;
    (target ? parameters : own) += target || kind.empty();
  }
  if (isConversion(read.op) && own == 0) {
    claimPart(findings, known, value, index,
              {value.numbers->shape.begin(), value.numbers->shape.end()});
    findings.claims.back().remark =
        messages::restoredFrom(read, known.parameter(index).name, false, "converted ");
    return findings;
  }
  std::optional<double> summand = recordedNumber(known.program, ownValueIn(from, known.program));
  if (read.op != "add" || parameters != 1 || own != 1 || !summand)
    return findings;
  InitialValue initial = valueOf(value);
  initial.initializer = nullptr;
  for (double element : value.numbers->values)
    initial.values.push_back(element - *summand);
  findings.claim(Evidence::Operation, ValueClaim{size_t(index), std::move(initial)});
  claimFunction(findings, known, value, index,
                Expression::of("add", Expression::ofNumber(*summand), Expression::ofInput()));
  return findings;
}
