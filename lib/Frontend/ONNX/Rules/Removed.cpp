//===- Removed.cpp - Operations that PyTorch's exporter removed -----------===//
//
// The optimizer of PyTorch's exporter removes x + c, x - c, x * c and x / c where c, of one
// element, does nothing. Until it compared exactly, it took a constant for 0 if it was at most
// 1e-8, and for 1 if it was within 1e-5 of it. What read the result still names it: a Sqrt that
// reads `sum_1` is recorded as sqrt(%add). The constant is not in the file. Source: onnxscript's
// rewriter/rules/common/_no_op.py and rewriter/_pattern_ir.py (Constant: rel_tol, abs_tol).
//
// - A small summand keeps roots, logarithms and quotients finite, so it must not get lost.
// - Where c was folded from a parameter that other operations read, too, `h * self.p.mean()` with a
// p
//   of ones, training would leave out this use of it. The exported program numbers operations in
//   its order: %mul_1 was computed after its operand and after %mul, and before its readers and
//   before %mul_2. A parameter may be behind c if its module was computing then, or had called one
//   that was.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Rules/Rules.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::StringRef;

/// Elements of the largest tensor that the exporter folds. Source: onnxscript's
/// optimizer/_constant_folding.py (DEFAULT_CONSTANT_FOLD_INPUT_SIZE_LIMIT).
static constexpr int64_t kFoldLimit = 8192;
/// Largest summand, and largest distance from 1 of a factor, with which the exporter removes an
/// operation. Source: onnxscript's rewriter/_pattern_ir.py (Constant: abs_tol, rel_tol).
static constexpr double kTakenForZero = 1e-8, kTakenForOne = 1e-5;

/// The reads in place of an operation that was removed where its constant does nothing, or that may
/// have been.
static std::vector<const MissingRead *> removedReads(const Known &known) {
  std::vector<const MissingRead *> reads;
  for (const MissingRead &read : known.program.missingReads())
    if (read.mayBeRemoved && !known.found.readsOfMerged.count(read.read) &&
        !known.found.restored.count(read.read))
      reads.push_back(&read);
  return reads;
}

/// An error for the first sum that gradients depend on.
void rules::removedSums(Known &known) {
  std::vector<const MissingRead *> reads = removedReads(known);
  llvm::erase_if(reads, [&](const MissingRead *read) {
    return read->isMerged() || !words::is(operationOf(read->name), words::Trait::IsSum) ||
           !known.program.isUnboundedAtZero(*read->operation);
  });
  if (!reads.empty())
    known.refuse(Reason::RemovedSum, reads.front()->read.first,
                 {reads.front()->value(), plain(displayName(reads.front()->name)),
                  plain(reads.size() > 1 ? say(", and {} more", {reads.size() - 1}) : "")});
}

static bool isMatrix(const Parameter &parameter) {
  return (parameter.initializer ? parameter.initializer->dims_size() : parameter.shape.size()) > 1;
}

/// Whether an element, a sum, a mean, a product or a norm of the numbers is 0 or 1, which functions
/// like exp, log and 1 - x turn into each other. `isMatrix`: such a parameter must have equal
/// elements, as no code reads a single one of a weight.
static bool mayGiveNeutral(ArrayRef<double> values, bool isMatrix) {
  if (values.empty() || (isMatrix && !llvm::all_equal(values)))
    return values.empty();
  double sum = 0, squares = 0, product = 1, count = values.size();
  for (double value : values)
    sum += value, squares += value * value, product *= value;
  auto isNeutral = [](double value) {
    return std::abs(value) <= kTakenForZero || std::abs(value - 1) <= kTakenForOne;
  };
  return llvm::any_of(values, isNeutral) ||
         llvm::any_of(ArrayRef<double>{sum, sum / count, squares, squares / count, product},
                      isNeutral);
}

/// Whether 0 or 1 may come from a parameter that the graph reads.
static bool mayBeNeutral(const Known &known, size_t index) {
  const Parameter &parameter = known.parameter(index);
  if (!known.isTrained(index))
    return false;
  if (!parameter.initializer)
    return mayGiveNeutral(parameter.values, isMatrix(parameter));
  int64_t size = 1;
  for (int64_t dim : parameter.initializer->dims())
    size = dim > 0 && size <= kFoldLimit ? size * std::min(dim, kFoldLimit + 1) : 0;
  if (size == 0 || size > kFoldLimit)
    return false;
  std::optional<Numbers> numbers = known.program.numbersOf(*parameter.initializer);
  return !numbers || mayGiveNeutral(numbers->values, isMatrix(parameter));
}

namespace {

/// The modules of a program, and when they compute.
class ModuleTimes {
public:
  explicit ModuleTimes(const TracedProgram &program) : program(program) {
    for (const NodeProto &node : program.graph().node()) {
      scopes.push_back(readScope(node).value_or(""));
      own[scopes.back()].push_back(readFxNode(node).target);
      for (auto &[scope, name] : readClasses(node))
        classes[scope] = name;
    }
  }

  StringRef classOf(StringRef module) const {
    auto found = classes.find(module);
    return found == classes.end() ? "" : StringRef(found->second);
  }
  void addComputing(StringRef name, const TracedOperation *maker, llvm::StringSet<> &modules) const;
  bool hasTwinOutside(StringRef module, const llvm::StringSet<> &modules) const;

private:
  const TracedProgram &program;
  std::vector<std::string> scopes;               // by place
  llvm::StringMap<std::vector<std::string>> own; // the operations of a module itself
  llvm::StringMap<std::string> classes;
};

} // namespace

/// Adds the modules that may have computed a removed operation, and those around them.
void ModuleTimes::addComputing(StringRef name, const TracedOperation *maker,
                               llvm::StringSet<> &modules) const {
  size_t first = maker ? program.placeOf(*maker->nodes.back()) : 0, last = scopes.size() - 1;
  for (const TracedOperation &operation : program.operations()) {
    bool isSame = operationOf(operation.fx.name) == operationOf(name);
    if (llvm::is_contained(operation.fx.args, name) ||
        (isSame && numberOf(operation.fx.name) > numberOf(name)))
      last = std::min(last, program.placeOf(*operation.nodes.front()));
    else if (isSame)
      first = std::max(first, program.placeOf(*operation.nodes.back()));
  }
  for (size_t at = std::min(first, last); at <= last; ++at)
    for (StringRef scope = scopes[at]; modules.insert(scope).second; scope = moduleOf(scope))
      continue;
}

/// Whether a module outside of `modules` has the class of this one and does the same: then nothing
/// was removed from it.
bool ModuleTimes::hasTwinOutside(StringRef module, const llvm::StringSet<> &modules) const {
  StringRef name = classOf(module);
  return !name.empty() && llvm::any_of(classes, [&](const auto &entry) {
    return entry.second == name && entry.first() != module && !modules.contains(entry.first()) &&
           own.lookup(entry.first()) == own.lookup(module);
  });
}

/// Returns a parameter that an operation which `modules` may have computed may have read.
static std::optional<size_t> parameterRead(const Known &known, const ModuleTimes &times,
                                           const llvm::StringSet<> &modules,
                                           const llvm::StringSet<> &ofKind) {
  for (size_t index = 0; index < known.count(); ++index) {
    // The nearest module around it that has an operation.
    StringRef module = moduleOf(known.target(index));
    while (!module.empty() && !known.program.hasOperations(module))
      module = moduleOf(module);
    if (modules.contains(module) && !times.classOf(module).starts_with(words::kShippedModules) &&
        mayBeNeutral(known, index) && !times.hasTwinOutside(module, ofKind))
      return index;
  }
  return std::nullopt;
}

/// An error for a removed operation that may have read a parameter, if nothing else is wrong: one
/// that operations read, or whose result was an output of the model.
void rules::neutralOperand(Known &known) {
  if (!known.found.refusals.empty())
    return;
  struct Suspect {
    StringRef name;
    const TracedOperation *maker; // of the value that is read, or is the output, in its place
    const NodeProto *node;
    std::string reader;
    llvm::StringSet<> modules = {};
  };
  std::vector<Suspect> suspects;
  llvm::StringSet<> seen;
  for (const MissingRead *read : removedReads(known))
    if (seen.insert(read->name).second)
      suspects.push_back({read->name, read->maker, read->read.first,
                          say("{} reads {}", {plain(nodeText(*read->read.first)), read->value()})});
  for (const ValueInfoProto &output : known.program.graph().output()) {
    StringRef name = metadata(output.metadata_props(), words::kOriginalName);
    if (!name.empty() && !known.program.has(name) &&
        words::is(operationOf(name), words::Trait::IsRemoved) && seen.insert(name).second)
      suspects.push_back({name, known.program.makerOf(output.name()), nullptr,
                          say("the output is {}", {output.name()})});
  }
  if (suspects.empty())
    return;
  ModuleTimes times(known.program);
  llvm::StringMap<llvm::StringSet<>> ofKind; // the modules that may have computed one of a kind
  for (Suspect &suspect : suspects) {
    times.addComputing(suspect.name, suspect.maker, suspect.modules);
    for (const auto &module : suspect.modules)
      ofKind[operationOf(suspect.name)].insert(module.getKey());
  }
  for (const Suspect &suspect : suspects)
    if (std::optional<size_t> index =
            parameterRead(known, times, suspect.modules, ofKind[operationOf(suspect.name)]))
      return known.refuse(
          Reason::NeutralOperand, suspect.node,
          {plain(suspect.reader), plain(displayName(suspect.name)), known.parameter(*index).name});
}
