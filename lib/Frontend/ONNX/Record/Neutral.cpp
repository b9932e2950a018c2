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
#include "lib/Frontend/ONNX/Record/Finder.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::StringRef;

/// Elements of the largest tensor that the exporter folds. Source: onnxscript's
/// optimizer/_constant_folding.py (DEFAULT_CONSTANT_FOLD_INPUT_SIZE_LIMIT).
static constexpr int64_t kFoldLimit = 8192;

/// Whether the exporter removes operations of this kind.
static bool isRemovedKind(StringRef kind) {
  return llvm::is_contained({"add", "sub", "mul", "div"}, kind);
}

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

namespace shale::onnx {

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
      return entry.second == name && entry.first() != module && !computing.contains(entry.first()) &&
             own.lookup(entry.first()) == own.lookup(module);
    });
  }

private:
  bool isRepeated(size_t at) const {
    return llvm::count(own.find(scopes[at])->second, steps[at]) > 1;
  }

  llvm::DenseMap<const NodeProto *, size_t> places;
  std::vector<std::string> scopes, steps; // by place
  llvm::StringMap<std::vector<std::string>> own; // the steps of a module itself
  llvm::StringSet<> modules;
  llvm::StringMap<std::string> classes;
};

/// A removed operation: what is read in its place, and the modules that may have computed it.
struct Suspect {
  std::string name, value, sentence;
  llvm::StringSet<> computing = {}, calling = {};
};

} // namespace shale::onnx

/// Whether 0 or 1 may come from a parameter that the graph reads.
bool Finder::mayBeNeutral(size_t index) {
  const Parameter &parameter = out.list[index];
  if (!parameter.isParameter || !parameter.used || options.freezes(parameter.name))
    return false;
  if (parameter.mayBePart && !isMatrix(parameter))
    return true; // of an element that is not known
  if (!parameter.initializer)
    return mayGiveNeutral(parameter.values, isMatrix(parameter));
  int64_t size = 1;
  for (int64_t dim : parameter.initializer->dims())
    size = dim > 0 && size <= kFoldLimit ? size * std::min(dim, kFoldLimit + 1) : 0;
  if (size == 0 || size > kFoldLimit)
    return false;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::optional<Numbers> numbers = readNumbers(model, context, *parameter.initializer);
  return !numbers || mayGiveNeutral(numbers->values, isMatrix(parameter));
}

/// Whether an operand of a removed operation has a reader that the graph does not have. If not, the
/// operation was merged with an equal one.
bool Finder::mayHaveRead(const std::string &value) const {
  const Operation *maker = makers.lookup(value);
  std::optional<int64_t> users = maker ? usersOf(*maker->nodes.back()) : std::nullopt;
  return !users || *users > llvm::count_if(operations, [&](const auto &entry) {
    return llvm::is_contained(entry.second.fx.args, maker->fx.name);
  });
}

/// Returns the removed operations that may have read a parameter, each once: those of `reads`, and
/// those whose results were outputs of the model.
static std::vector<Suspect> findSuspects(const GraphProto &graph, ArrayRef<RemovedRead> reads,
                                         const llvm::StringSet<> &known) {
  std::vector<Suspect> suspects;
  llvm::StringSet<> seen;
  auto add = [&](StringRef name, const std::string &value, const std::string &what,
                 StringRef source) {
    if (seen.insert(name).second)
      suspects.push_back({name.str(), value,
                          what + " '" + displayName(value) + "' where the model has '%" +
                              displayName(name) + "'" +
                              (source.empty() ? "" : " (" + displayName(source) + ")")});
  };
  for (const RemovedRead &read : reads)
    add(read.name, read.node->input(read.operand),
        "node '" + displayName(read.node->name()) + "' reads", read.source);
  for (const ValueInfoProto &output : graph.output()) {
    StringRef name = metadata(output.metadata_props(), "pkg.torch.onnx.original_node_name");
    if (!name.empty() && !known.contains(name) && isRemovedKind(operationOf(name)))
      add(name, output.name(), "the output is", "");
  }
  return suspects;
}

/// Finds the modules that may have computed a removed operation.
void Finder::findModules(Suspect &suspect, const ModuleTimes &times) const {
  size_t first = 0, last = graph.node_size() - 1;
  auto isAfter = [&](const Operation &operation) {
    first = std::max(first, times.placeOf(operation.nodes.back()));
  };
  auto isBefore = [&](const Operation &operation) {
    last = std::min(last, times.placeOf(operation.nodes.front()));
  };
  if (const Operation *maker = makers.lookup(suspect.value))
    isAfter(*maker);
  std::string kind = operationOf(suspect.name);
  for (const auto &entry : operations) {
    const Operation &operation = entry.second;
    bool isSame = operationOf(operation.fx.name) == kind;
    if (llvm::is_contained(operation.fx.args, suspect.name) ||
        (isSame && numberOf(operation.fx.name) > numberOf(suspect.name)))
      isBefore(operation);
    else if (isSame)
      isAfter(operation);
  }
  times.addActive(std::min(first, last), last, suspect.computing, suspect.calling);
}

/// Returns a parameter that a removed operation may have read, or -1. `computing`: the modules that
/// may have computed one of its kind.
int Finder::parameterRead(const Suspect &suspect, const ModuleTimes &times,
                          const llvm::StringSet<> &computing) {
  for (size_t index = 0; index < out.list.size(); ++index) {
    const Parameter &parameter = out.list[index];
    // The nearest module around it that has an operation.
    StringRef module = moduleOf(targets[index]);
    while (!module.empty() && !times.contains(module))
      module = moduleOf(module);
    // Code passes scales to the modules that it calls, and no weights.
    bool isAtHand = suspect.computing.contains(module) ||
                    (suspect.calling.contains(module) && !isMatrix(parameter));
    if (isAtHand && !StringRef(times.classOf(module)).starts_with("torch.nn.modules.") &&
        mayBeNeutral(index) && !times.hasTwinOutside(module, computing))
      return index;
  }
  return -1;
}

void Finder::refuseNeutral(ArrayRef<RemovedRead> reads) {
  std::vector<RemovedRead> open;
  for (const RemovedRead &read : reads) {
    std::pair<const NodeProto *, int> place(read.node, read.operand);
    if (!out.readsOfMerged.count(place) && !out.restored.count(place))
      open.push_back(read);
  }
  std::vector<Suspect> suspects = findSuspects(graph, open, known);
  llvm::erase_if(suspects, [&](const Suspect &one) { return !mayHaveRead(one.value); });
  if (suspects.empty())
    return;
  ModuleTimes times(graph);
  llvm::StringMap<llvm::StringSet<>> computing; // by the kind of the removed operation
  for (Suspect &suspect : suspects) {
    findModules(suspect, times);
    for (const auto &module : suspect.computing)
      computing[operationOf(suspect.name)].insert(module.getKey());
  }
  for (const Suspect &suspect : suspects)
    if (int index = parameterRead(suspect, times, computing[operationOf(suspect.name)]);
        index >= 0) {
      out.errors.push_back(
          suspect.sentence +
          ": the export removed an operation that changed nothing, and the file does not show "
          "whether it read parameter '" +
          displayName(out.list[index].name) +
          "', from whose values 0 or 1 can come; training would leave that use out. Export with "
          "torch.onnx.export(..., optimize=False)");
      return;
    }
}
