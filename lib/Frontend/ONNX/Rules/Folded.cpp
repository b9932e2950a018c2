//===- Folded.cpp - Parameters that the exporter folded into constants ----===//
//
// The exporter computes everything that depends on small parameters alone and
// keeps the result as an initializer: the remaining graph would silently train
// without these parameters. A node's metadata still names the value that it read
// (`%sub`), for which the graph has no node. The exporter lists the names from
// which it folded a value: parameters, values of the exported program, and values
// of its own (val_3). A constant of equal elements is merged with the first one
// and has no list. A value is computed again only where the record has its one
// operation with all operands; otherwise the import fails with an error that names
// the parameter and the remedy.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Rules/Rules.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

// Each function that explains a constant takes its reads, and what it shows of a parameter's value,
// and returns whether it does.

/// Explains a read of an initializer with a parameter's name: an operation that changed nothing was
/// removed, and the node reads the parameter itself.
static bool explainByName(Known &known, const FoldedValue &value) {
  const FoldedRead &read = value.first();
  std::optional<size_t> index = known.program.parameterNamed(read.initializer->name());
  bool isNamed = read.name == read.initializer->name();
  if (!index || !(isNamed || read.mayBeMoved()))
    return false;
  const Parameter &parameter = known.parameter(*index);
  // Equal constants are merged under one name, so the parameter may be another one.
  bool isMerged = !value.numbers || isConstant(*value.numbers);
  if (parameter.used ? isMerged || parameter.initializer != read.initializer || parameter.transposed
                     : isMerged && isNamed)
    return false;
  known.takeValue(*index, {read.initializer});
  known.takeReads(*index, value.places());
  return true;
}

/// Whether the constant may be made of values of this kind beside the parameter. It is empty for
/// the exporter's own values, and "buffer" for buffers.
using Allows = bool (*)(StringRef kind);

static bool allowsNone(StringRef) { return false; }
static bool allowsOwn(StringRef kind) { return kind.empty(); }
static bool allowsSlices(StringRef kind) { return kind.empty() || kind == "slice"; }
static bool allowsNumbers(StringRef kind) { return kind.empty() || isMadeByCode(kind); }
static bool allowsMovements(StringRef kind) {
  return allowsNumbers(kind) || kind == "buffer" || isMovement(kind);
}
static bool allowsTurns(StringRef kind) { return words::is(kind, words::Trait::Turns); }

/// Returns the parameter of a value whose list has only it and what is allowed beside it.
static std::optional<size_t> onlyParameterIn(const Known &known, const FoldedValue &value,
                                             Allows allows) {
  std::optional<size_t> index;
  for (const std::string &name : value.from)
    if (std::optional<size_t> target = known.program.parameterNamed(name);
        target && known.parameter(*target).isParameter) {
      if (index)
        return std::nullopt;
      index = target;
    } else if (!allows(target ? "buffer" : operationOf(name))) {
      return std::nullopt;
    }
  return index;
}

/// Explains a transpose, or a transpose of that, of a parameter that the exporter's metadata names.
/// A graph that computes gradients reads both.
static bool explainTranspose(Known &known, const FoldedValue &value) {
  std::optional<size_t> index = onlyParameterIn(known, value, allowsTurns);
  const FoldedRead &read = value.first();
  if (!index || known.isAlias[*index] || !allowsTurns(read.op) ||
      read.initializer->dims_size() != 2)
    return false;
  // A constant of another name was made of the value by nodes of the exporter's own: aten.linear
  // has its weight the other way around than MatMul.
  bool isRenamed = read.name != read.initializer->name();
  if (isRenamed && (!StringRef(readFxNode(*read.node).target).starts_with(words::kLinear) ||
                    read.operand != 1 || readsTransposed(*read.node)))
    return false;
  // The list has the parameter and each transpose but the last.
  bool transposed = (value.from.size() + isRenamed) % 2;
  const Numbers *parameter =
      known.parameter(*index).used && value.numbers ? known.numbersOf(*index) : nullptr;
  if (parameter &&
      (parameter->shape.size() != 2 ||
       (transposed ? transposeOf(*parameter) : *parameter).values != value.numbers->values))
    return false;
  if (known.takeValue(*index, {read.initializer, transposed}))
    known.remarkRestored(read, *index, transposed ? "transposed " : "");
  known.takeReads(*index, value.places(), transposed);
  return true;
}

// ---- one operation on one parameter

namespace {

/// The parameter from which one operation computed a constant.
struct Inverse {
  /// The parameter's shape, and its elements if they are not those of the constant.
  std::vector<int64_t> shape;
  std::vector<double> elements = {};
  /// The constant as a function of the parameter; none: in another shape.
  std::optional<Expression> function = {};
};

/// How an operation that computed a constant from one parameter is inverted.
struct Inversion {
  StringRef op;
  Allows allows;
  std::optional<Inverse> (*invert)(const Numbers &);
};

} // namespace

static std::vector<int64_t> shapeOf(const Numbers &numbers) {
  return {numbers.shape.begin(), numbers.shape.end()};
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

/// Rows that a table is looked up at, `wpe(torch.arange(T))`, if no two are equal. What the graph
/// reads is trained.
static std::optional<Inverse> rowsOf(const Numbers &constant) {
  if (!hasDistinctRows(constant))
    return std::nullopt;
  return Inverse{{constant.size() / constant.shape.back(), constant.shape.back()}};
}

/// A parameter that is repeated along one dimension, `self.cls.expand(n, -1, -1)`. Where the
/// elements are equal along a second one, it is not known which was repeated.
static std::optional<Inverse> onceOf(const Numbers &all) {
  std::optional<size_t> repeated;
  int64_t inner = 1, stride = 0;
  for (size_t d = all.shape.size(); d-- > 0; inner *= all.shape[d]) {
    bool repeats = all.shape[d] > 1;
    for (int64_t i = 0; repeats && i < all.size(); ++i)
      repeats = all.values[i] == all.values[i - i / inner % all.shape[d] * inner];
    if (repeats && repeated)
      return std::nullopt;
    if (repeats)
      repeated = d, stride = inner;
  }
  if (!repeated)
    return std::nullopt;
  Inverse inverse{shapeOf(all)};
  for (int64_t i = 0; i < all.size(); ++i)
    if (i / stride % inverse.shape[*repeated] == 0)
      inverse.elements.push_back(all.values[i]);
  inverse.shape[*repeated] = 1;
  return inverse;
}

/// The exponential of a parameter alone, `self.logit_scale.exp()`.
static std::optional<Inverse> logarithmOf(const Numbers &constant) {
  Inverse inverse{shapeOf(constant), {}, Expression{Expression::Kind::Exponential}};
  for (double element : constant.values)
    if (!std::isfinite(inverse.elements.emplace_back(std::log(element))))
      return std::nullopt;
  return inverse;
}

/// A slice has each element of its parameter at most once, as `self.pos[:, :T]`. What the graph
/// reads is trained.
static std::optional<Inverse> sliceOf(const Numbers &constant) {
  return Inverse{shapeOf(constant)};
}

static constexpr Inversion kInversions[] = {
    {"embedding", allowsMovements, rowsOf},
    {"slice", allowsSlices, sliceOf},
    {"expand", allowsOwn, onceOf},
    {"exp", allowsNone, logarithmOf},
};

/// Whether no other constant was folded from the parameter.
static bool isOnlyOne(const Known &known, const FoldedValue &value, size_t index) {
  return llvm::all_of(known.values, [&](const FoldedValue &other) {
    return other.first().initializer == value.first().initializer ||
           !llvm::is_contained(other.from, known.target(index));
  });
}

/// Takes reads of a constant for reads of a function of a parameter.
static void takeFunction(Known &known, const FoldedValue &value, size_t index,
                         Expression function) {
  known.remark(value.first().node, "'" + displayName(value.first().name) +
                                       "', which the export folded, is " +
                                       function.text(known.parameter(index).name) + " again");
  known.takeReads(index, value.places(), false, std::move(function));
}

/// Takes the constant for what is known of a parameter that no other node reads.
static void takeInverse(Known &known, const FoldedValue &value, size_t index, Inverse inverse) {
  const FoldedRead &read = value.first();
  SmallVector<int64_t> dims = sizesOf(*read.initializer);
  bool isOwn = inverse.elements.empty();
  known.takeValue(index, {isOwn ? read.initializer : nullptr, false, inverse.shape,
                          read.initializer->data_type(), std::move(inverse.elements)});
  if (inverse.function)
    return takeFunction(known, value, index, std::move(*inverse.function));
  std::optional<Expression> moved;
  if (ArrayRef(inverse.shape) != ArrayRef(dims))
    moved = Expression{isOwn ? Expression::Kind::Itself : Expression::Kind::Repeated};
  known.takeReads(index, value.places(), false, std::move(moved));
  known.remark(read.node,
               "parameter '" + known.parameter(index).name +
                   "', which the export folded, is restored from initializer '" +
                   displayName(read.initializer->name()) +
                   "': the part that the graph reads is trained and written, " +
                   listOfSizes(inverse.shape) +
                   ". Where that is not the whole, export with optimize=False or with a free size",
               /*isNote=*/true);
}

/// Explains a constant that one operation computed from a parameter that no other node reads.
static bool explainInverse(Known &known, const FoldedValue &value) {
  const auto *how =
      llvm::find_if(kInversions, [&](const Inversion &one) { return one.op == value.first().op; });
  if (how == std::end(kInversions))
    return false;
  std::optional<size_t> index = onlyParameterIn(known, value, how->allows);
  if (!index || !known.isMissing(*index) || !isOnlyOne(known, value, *index))
    return false;
  std::optional<Inverse> inverse;
  if (value.numbers)
    inverse = how->invert(*value.numbers);
  if (inverse)
    takeInverse(known, value, *index, std::move(*inverse));
  return inverse.has_value();
}

// ---- sums and differences with a number

/// Returns the only value of the exporter's own in a list as the number that it is: that of a
/// constant which is it, or which was folded from it alone, in another type or shape. None if there
/// is no such value, or if the file has no such constant.
static std::optional<double> numberIn(ArrayRef<std::string> from, const TracedProgram &program) {
  StringRef own;
  for (StringRef name : from)
    if (!program.parameterNamed(name) && operationOf(name).empty()) {
      if (!own.empty())
        return std::nullopt;
      own = name;
    }
  for (const TensorProto &tensor : program.graph().initializer()) {
    ArrayRef<std::string> of = program.foldedFrom(tensor.name());
    if (!isScalar(tensor) || !(tensor.name() == own || (of.size() == 1 && of[0] == own)))
      continue;
    if (std::optional<Numbers> numbers = program.numbersOf(tensor))
      return numbers->values.front();
  }
  return std::nullopt;
}

/// Returns the only parameter of a module; none if it has another number of them.
static std::optional<size_t> onlyParameterOf(const Known &known, StringRef module) {
  std::optional<size_t> found;
  for (size_t index = 0; index < known.count(); ++index)
    if (moduleOf(known.target(index)) == module) {
      if (found)
        return std::nullopt;
      found = index;
    }
  return found;
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
  std::string name = classOf(*value.first().node);
  for (const FoldedValue &other : known.values)
    if (other.first().initializer == value.first().initializer && !other.from.empty() &&
        other.first().op == value.first().op && !name.empty() &&
        classOf(*other.first().node) == name)
      return other.from;
  return {};
}

/// Explains the sum of a number and the only parameter of a module, as norms write their weight:
/// `x * (1.0 + self.weight)`, or that parameter converted. The record has the operation, the
/// parameter and the number.
static bool explainSum(Known &known, const FoldedValue &value) {
  const FoldedRead &read = value.first();
  std::optional<size_t> index = onlyParameterOf(known, read.scope);
  if (!value.numbers || !index || !known.isMissing(*index) ||
      read.op != operationOf(read.initializer->name()))
    return false;
  ArrayRef<std::string> from = originsOf(known, value);
  size_t parameters = 0, own = 0;
  for (StringRef name : from) {
    std::string kind = operationOf(name);
    std::optional<size_t> target = known.program.parameterNamed(name);
    if (target ? !value.from.empty() && target != index
               : !kind.empty() && !isMadeByCode(kind) && !isConversion(kind))
      return false;
    (target ? parameters : own) += target || kind.empty();
  }
  if (isConversion(read.op) && own == 0) {
    known.takeValue(
        *index, {read.initializer, false, shapeOf(*value.numbers), read.initializer->data_type()});
    known.takeReads(*index, value.places());
    known.remarkRestored(read, *index, "converted ");
    return true;
  }
  std::optional<double> summand = numberIn(from, known.program);
  if (read.op != "add" || parameters != 1 || own != 1 || !summand)
    return false;
  Inverse inverse{shapeOf(*value.numbers), {}, Expression{Expression::Kind::Sum, *summand}};
  for (double element : value.numbers->values)
    inverse.elements.push_back(element - *summand);
  takeInverse(known, value, *index, std::move(inverse));
  return true;
}

/// Explains a constant that was merged with one of equal elements, which the same operation made of
/// the only parameter that has these values: a module that is called twice.
static bool explainSecondCall(Known &known, const FoldedValue &value) {
  const FoldedRead &read = value.first();
  bool isMerged = value.from.empty() && read.name != read.initializer->name() && !read.op.empty() &&
                  read.op == operationOf(read.initializer->name());
  if (!isMerged || !value.numbers || isConstant(*value.numbers))
    return false;
  for (const FoldedValue &other : known.values) {
    auto found = known.found.uses.find(other.places().front());
    if (other.first().initializer != read.initializer || other.from.empty() ||
        found == known.found.uses.end())
      continue;
    ParameterUse use = found->second;
    for (size_t index = 0; index < known.count(); ++index)
      if (index != use.parameter &&
          (known.isMissing(index) || known.haveEqualValues(index, use.parameter)))
        return false;
    std::optional<Expression> function;
    if (use.expression >= 0)
      function = known.found.expressions[use.expression];
    known.takeReads(use.parameter, value.places(), use.transposed, std::move(function));
    return true;
  }
  return false;
}

void rules::folded(Known &known) {
  readFolded(known);
  for (FoldedValue &value : known.values)
    value.isExplained = explainByName(known, value) || explainTranspose(known, value) ||
                        explainInverse(known, value) || explainSum(known, value) ||
                        explainSecondCall(known, value);
}
