//===- Neutral.cpp - Removed operations that may have read a parameter ----===//
//
// The exporter removes x * c and x / c where c is 1, and x + c and x - c where c is 0, if c has one
// element. Where c is a number of the model's code, the model is the same without it. Where c was
// folded from a parameter that other operations read, too, as in
//
//   a = self.p.mean()               # self.p is all ones
//   return torch.tanh(h * a) + self.p * x
//
// training would leave out this use of the parameter, and the file has no trace of `a`. But what
// read the product still names it (%mul_1), and the exported program numbers operations in its
// order: the product was computed after its operand and after %mul, and before its readers and
// before %mul_2. A parameter may be behind `a` if its module was computing then, or had called the
// one that was.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::StringRef;

/// Elements of the largest tensor that the exporter folds. Source: onnxscript's
/// optimizer/_constant_folding.py (DEFAULT_CONSTANT_FOLD_INPUT_SIZE_LIMIT).
static constexpr int64_t kFoldLimit = 8192;

static void forEachModule(StringRef scope, llvm::function_ref<void(StringRef)> visit) {
  for (; !scope.empty(); scope = moduleOf(scope))
    visit(scope);
  visit("");
}

/// Returns the innermost module that contains both or is one of them.
static StringRef commonModule(StringRef a, StringRef b) {
  StringRef common = "";
  forEachModule(a, [&](StringRef module) {
    bool contains = b == module || b.starts_with((module + ".").str());
    if (common.empty() && contains)
      common = module;
  });
  return common;
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
  auto isNeutral = [](double value) {
    return std::abs(value) <= kTakenForZero || std::abs(value - 1) <= kTakenForOne;
  };
  double sum = 0, squares = 0, product = 1, count = values.size();
  for (double value : values)
    sum += value, squares += value * value, product *= value;
  return llvm::any_of(values, isNeutral) ||
         llvm::any_of(ArrayRef<double>{sum, sum / count, squares, squares / count, product},
                      isNeutral);
}

/// Returns the number of operations of the exported program that read the result of a node's
/// operation; none if it is not known.
static std::optional<int64_t> usersOf(const NodeProto &node) {
  StringRef text = metadata(node.metadata_props(), "pkg.torch.onnx.fx_node");
  int64_t users = 0;
  StringRef rest = text.split("[num_users=").second;
  return rest.consumeInteger(10, users) ? std::nullopt : std::optional(users);
}

namespace {

/// The modules of a graph, and when they compute.
class ModuleTimes {
public:
  explicit ModuleTimes(const GraphProto &graph) {
    for (const NodeProto &node : graph.node()) {
      places[&node] = scopes.size();
      scopes.push_back(readScope(node).value_or(""));
      FxNode fx = readFxNode(node);
      steps.push_back(fx.target + "\n" + readSourceText(node).str());
      own[scopes.back()].push_back(steps.back());
      forEachModule(scopes.back(), [&](StringRef module) { modules.insert(module); });
      for (auto &[scope, name] : readClasses(node))
        classes[scope] = name;
    }
  }

  size_t placeOf(const NodeProto *node) const { return places.lookup(node); }
  bool contains(StringRef module) const { return modules.contains(module); }
  std::string classOf(StringRef module) const { return classes.lookup(module); }

  /// Adds the modules that may compute between two nodes to `computing`, and those that have called
  /// one of them to `calling`.
  void addActive(size_t first, size_t last, llvm::StringSet<> &computing,
                 llvm::StringSet<> &calling) const {
    for (size_t at = first; at <= last; ++at) {
      StringRef scope = scopes[at], next = scopes[std::min(at + 1, last)];
      StringRef common = commonModule(scope, next);
      // A module that returned and was called again repeats its steps.
      if (scope == next && (isRepeated(at) || isRepeated(std::min(at + 1, last))))
        common = "";
      for (StringRef end : {scope, next})
        forEachModule(end, [&](StringRef module) {
          bool isInside = module == common || module.starts_with((common + ".").str()) ||
                          (common.empty() && !module.empty());
          (isInside ? computing : calling).insert(module);
        });
    }
  }

  /// Whether another module of the same class does what this one does and is not in `computing`.
  bool hasTwinOutside(StringRef module, const llvm::StringSet<> &computing) const {
    std::string name = classes.lookup(module);
    return !name.empty() && llvm::any_of(classes, [&](const auto &entry) {
      return entry.second == name && entry.first() != module &&
             !computing.contains(entry.first()) && own.lookup(entry.first()) == own.lookup(module);
    });
  }

private:
  bool isRepeated(size_t at) const {
    return llvm::count(own.find(scopes[at])->second, steps[at]) > 1;
  }

  llvm::DenseMap<const NodeProto *, size_t> places;
  std::vector<std::string> scopes, steps;        // by place
  llvm::StringMap<std::vector<std::string>> own; // the steps of a module itself
  llvm::StringSet<> modules;
  llvm::StringMap<std::string> classes;
};

/// A removed operation: what is read in its place, by whom, and the modules that may have computed
/// it.
struct Suspect {
  std::string name, value;
  const RemovedRead *read; // null: an output of the model
  llvm::StringSet<> computing = {}, calling = {};
};

} // namespace

/// Whether 0 or 1 may come from a parameter that the graph reads.
static bool mayBeNeutral(const Known &known, size_t index) {
  const Parameter &parameter = known.parameter(index);
  if (!parameter.isParameter || !parameter.used || known.isFrozen(index))
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

/// Whether an operand of a removed operation has a reader that the graph does not have. If not, the
/// operation was merged with an equal one.
static bool mayHaveRead(const TracedProgram &program, StringRef value) {
  const Operation *maker = program.makerOf(value);
  std::optional<int64_t> users = maker ? usersOf(*maker->nodes.back()) : std::nullopt;
  return !users || *users > llvm::count_if(program.operations(), [&](const Operation &reader) {
    return llvm::is_contained(reader.fx.args, maker->fx.name);
  });
}

/// Returns the removed operations that may have read a parameter, each once: those that operations
/// read, and those whose results were outputs of the model.
static std::vector<Suspect> findSuspects(const Known &known) {
  std::vector<Suspect> suspects;
  llvm::StringSet<> seen;
  auto add = [&](StringRef name, const std::string &value, const RemovedRead *read) {
    if (seen.insert(name).second && mayHaveRead(known.program, value))
      suspects.push_back({name.str(), value, read});
  };
  for (const RemovedRead &read : known.removedReads) {
    Place place(read.node, read.operand);
    if (!known.found.readsOfMerged.count(place) && !known.found.restored.count(place))
      add(read.name, read.node->input(read.operand), &read);
  }
  for (const ValueInfoProto &output : known.program.graph().output()) {
    StringRef name = metadata(output.metadata_props(), words::kOriginalName);
    if (!name.empty() && !known.program.has(name) &&
        words::is(operationOf(name), words::Trait::IsRemoved))
      add(name, output.name(), nullptr);
  }
  return suspects;
}

/// Finds the modules that may have computed a removed operation.
static void findModules(Suspect &suspect, const TracedProgram &program, const ModuleTimes &times) {
  size_t first = 0, last = program.graph().node_size() - 1;
  auto isAfter = [&](const Operation &operation) {
    first = std::max(first, times.placeOf(operation.nodes.back()));
  };
  auto isBefore = [&](const Operation &operation) {
    last = std::min(last, times.placeOf(operation.nodes.front()));
  };
  if (const Operation *maker = program.makerOf(suspect.value))
    isAfter(*maker);
  std::string kind = operationOf(suspect.name);
  for (const Operation &operation : program.operations()) {
    bool isSame = operationOf(operation.fx.name) == kind;
    if (llvm::is_contained(operation.fx.args, suspect.name) ||
        (isSame && numberOf(operation.fx.name) > numberOf(suspect.name)))
      isBefore(operation);
    else if (isSame)
      isAfter(operation);
  }
  times.addActive(std::min(first, last), last, suspect.computing, suspect.calling);
}

/// Returns a parameter that a removed operation may have read. `computing`: the modules that may
/// have computed one of its kind.
static std::optional<size_t> parameterRead(const Known &known, const Suspect &suspect,
                                           const ModuleTimes &times,
                                           const llvm::StringSet<> &computing) {
  for (size_t index = 0; index < known.found.list.size(); ++index) {
    // The nearest module around it that has an operation.
    StringRef module = moduleOf(known.target(index));
    while (!module.empty() && !times.contains(module))
      module = moduleOf(module);
    // Code passes scales to the modules that it calls, and no weights.
    bool isAtHand = suspect.computing.contains(module) ||
                    (suspect.calling.contains(module) && !isMatrix(known.parameter(index)));
    if (isAtHand && !StringRef(times.classOf(module)).starts_with(words::kShippedModules) &&
        mayBeNeutral(known, index) && !times.hasTwinOutside(module, computing))
      return index;
  }
  return std::nullopt;
}

/// An error for a removed operation that may have read a parameter, if nothing else is wrong.
Findings rules::neutralOperand(const Known &known) {
  std::vector<Suspect> suspects;
  if (known.found.errors.empty())
    suspects = findSuspects(known);
  if (suspects.empty())
    return {};
  ModuleTimes times(known.program.graph());
  llvm::StringMap<llvm::StringSet<>> computing; // by the kind of the removed operation
  for (Suspect &suspect : suspects) {
    findModules(suspect, known.program, times);
    for (const auto &module : suspect.computing)
      computing[operationOf(suspect.name)].insert(module.getKey());
  }
  for (const Suspect &suspect : suspects)
    if (std::optional<size_t> index =
            parameterRead(known, suspect, times, computing[operationOf(suspect.name)]))
      return Findings::error(messages::mayHaveReadParameter(
          suspect.name, suspect.value, suspect.read, known.parameter(*index).name));
  return {};
}
