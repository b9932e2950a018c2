//===- Arguments.cpp - Parameters as arguments of traced operations -------===//
//
// PyTorch's default export merges initializers of equal value, drops zero biases, and stores
// transposes under new names. Each node's metadata names the placeholders that its original
// operation reads.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

namespace {

/// How the nodes of an operation read the parameters that its record names.
struct ArgumentReads {
  SmallVector<std::pair<const Use *, size_t>> reads;
  /// Biases that no node reads.
  SmallVector<size_t> lost;
};

} // namespace

/// Returns whether the initializer that a node reads is the transpose of the parameter: the weight
/// of aten.linear is [out, in], and a product without a transpose reads one that was folded.
static bool isTransposed(const Operation &operation, const Use &use) {
  return StringRef(operation.fx.target).starts_with(words::kLinear) && use.operand == 1 &&
         use.initializer->dims_size() == 2 &&
         llvm::is_contained({"MatMul", "Gemm"}, use.node->op_type()) && !readsTransposed(*use.node);
}

/// Takes `use` for a read of a parameter. Its initializer was made of the parameter as the form of
/// the operation says.
static void takeRead(Known &known, const Operation &operation, const Use &use, size_t index) {
  const FormFitter::Meaning *meaning =
      operation.hasForm ? known.program.meaningOf(*use.node, use.operand) : nullptr;
  const Layout *layout = meaning && meaning->layout ? &*meaning->layout : nullptr;
  const Parameter &parameter = known.parameter(index);
  bool isRenamed = use.initializer->name() != known.target(index);
  bool isMoved = layout && !layout->isPlain();
  bool transposed =
      isMoved ? layout->isTransposedMatrix() : isRenamed && isTransposed(operation, use);
  std::optional<Expression> function;
  InitialValue value{use.initializer, transposed};
  if (isMoved && !transposed) {
    function = layout->expression();
    value.shape.assign(layout->shape.begin(), layout->shape.end());
    value.dataType = use.initializer->data_type();
    if (layout->movesElements() && !parameter.used) {
      std::optional<Numbers> numbers = known.program.numbersOf(*use.initializer);
      if (!numbers) // it stays missing
        return;
      value.values = layout->argumentOf(numbers->values);
    }
  }
  if (meaning && meaning->isShapeOpen && !parameter.used)
    known.remark(
        use.node,
        "parameter '" + parameter.name +
            "', of which the export may have added dimensions, is trained and written as " +
            listOfSizes(sizesOf(*use.initializer)) +
            ". Where PyTorch has another shape, export with optimize=False",
        /*isNote=*/true);
  known.takeReads(index, Place(use.node, use.operand), transposed, std::move(function));
  known.readers[index].push_back(
      {operation.scope, StringRef(operation.fx.target).starts_with(words::kEmbedding)});
  if (known.takeValue(index, std::move(value)) && isRenamed)
    known.remarkRestored(use, index, transposed ? "transposed " : "merged ");
}

/// Returns the parameters that an operation's record names, each once.
static SmallVector<size_t> parametersNamedBy(const TracedProgram &program,
                                             const Operation &operation) {
  SmallVector<size_t> named;
  for (const std::string &name : operation.fx.args)
    if (std::optional<size_t> index = program.parameterOf(name);
        index && !llvm::is_contained(named, *index))
      named.push_back(*index);
  return named;
}

/// Returns the reads that the form of an operation shows to be parameters.
static ArgumentReads readsByForm(const Known &known, const Operation &operation) {
  ArgumentReads found;
  const TracedProgram &program = known.program;
  for (const Use &use : operation.uses) {
    const FormFitter::Meaning *meaning = program.meaningOf(*use.node, use.operand);
    std::optional<size_t> index = meaning ? program.parameterOf(meaning->value) : std::nullopt;
    if (index && !(meaning->isShapeOfConstant &&
                   !program.isMadeOf(*use.initializer, program.target(*index))))
      found.reads.push_back({&use, *index});
  }
  for (size_t index : parametersNamedBy(program, operation))
    if (program.isBias(operation, index) &&
        llvm::none_of(found.reads, [&](const auto &read) { return read.second == index; }))
      found.lost.push_back(index);
  return found;
}

/// Returns the sizes of a tensor in any order and layout.
static SmallVector<int64_t> sortedSizes(const TensorProto &tensor) {
  SmallVector<int64_t> sizes(
      llvm::make_filter_range(tensor.dims(), [](int64_t size) { return size != 1; }));
  llvm::sort(sizes);
  return sizes;
}

/// Returns the reads of operands that may be one of `wanted`; none if they are more constants.
static std::optional<SmallVector<const Use *>> mayBeOf(const TracedProgram &program,
                                                       SmallVector<const Use *> uses,
                                                       llvm::ArrayRef<size_t> wanted) {
  auto isAmbiguous = [&] {
    std::set<const TensorProto *> distinct;
    for (const Use *use : uses)
      distinct.insert(use->initializer);
    return distinct.size() > wanted.size();
  };
  if (uses.size() > wanted.size())
    llvm::erase_if(uses, [](const Use *use) { return isScalar(*use->initializer); });
  if (isAmbiguous()) // what was folded from other values is none of the parameters
    llvm::erase_if(uses, [&](const Use *use) {
      llvm::ArrayRef<std::string> from = program.foldedFrom(use->initializer->name());
      return !from.empty() && llvm::none_of(wanted, [&](size_t index) {
        return llvm::is_contained(from, program.target(index));
      });
    });
  return isAmbiguous() ? std::nullopt : std::optional(std::move(uses));
}

/// Returns the reads of an operation without a form: of initializers with the parameters' names,
/// and of the others in their order. This follows from signatures of ATen's operations.
static ArgumentReads readsByOrder(const Known &known, const Operation &operation) {
  ArgumentReads found;
  const TracedProgram &program = known.program;
  SmallVector<size_t> wanted = parametersNamedBy(program, operation);
  if (wanted.empty())
    return found;
  // aten.addmm reads its bias first, the ONNX product last.
  if (StringRef(operation.fx.target).starts_with(words::kAddmm) && wanted.size() > 1 &&
      !operation.fx.args.empty() && program.parameterOf(operation.fx.args.front()))
    std::rotate(wanted.begin(), wanted.begin() + 1, wanted.end());

  SmallVector<const Use *> uses;
  for (const Use &use : operation.uses) {
    auto *exact = llvm::find_if(
        wanted, [&](size_t index) { return program.target(index) == use.initializer->name(); });
    if (exact != wanted.end())
      found.reads.push_back({&use, *exact});
    else if (program.readsAsItIs(operation, use))
      uses.push_back(&use);
  }
  llvm::erase_if(wanted, [&](size_t index) {
    return llvm::any_of(operation.uses, [&](const Use &use) {
      return program.target(index) == use.initializer->name();
    });
  });
  std::optional<SmallVector<const Use *>> fitting = mayBeOf(program, std::move(uses), wanted);
  if (!fitting)
    return found;
  // Exporters drop biases but no weights, so the first operands win.
  // A bias alone that meets a matrix is the lost one. A weight from which an equal operation first
  // computed something is not read here.
  auto fits = [&](size_t index, const Use &use) {
    if (program.isBias(operation, index))
      return sortedSizes(*use.initializer).size() <= 1;
    const TensorProto *value = known.parameter(index).initializer;
    return !value || sortedSizes(*value) == sortedSizes(*use.initializer);
  };
  size_t next = 0;
  for (size_t index : wanted) {
    if (next < fitting->size() && fits(index, *(*fitting)[next])) {
      const TensorProto *taken = (*fitting)[next]->initializer;
      found.reads.push_back({(*fitting)[next++], index});
      // Several nodes of one operation may read it.
      while (next < fitting->size() && (*fitting)[next]->initializer == taken &&
             fitting->size() > wanted.size())
        found.reads.push_back({(*fitting)[next++], index});
    } else if (program.isBias(operation, index)) {
      found.lost.push_back(index);
    }
  }
  return found;
}

/// Takes the bias of zeros that an operation lost for that of its product or norm, where it was
/// added.
static void takeLostBias(Known &known, const Operation &operation, size_t index) {
  for (const NodeProto *node : llvm::reverse(operation.nodes)) {
    StringRef type = node->op_type();
    if (!llvm::is_contained({"Gemm", "MatMul", "LayerNormalization", "Conv"}, type))
      continue;
    const TensorProto *weight = nullptr;
    for (const Use &use : operation.uses)
      if (use.node == node && use.operand == 1)
        weight = use.initializer;
    if (!weight || weight->dims_size() == 0)
      continue;
    Parameter &bias = known.found.list[index];
    bool firstDim = type == "Conv" || readsTransposed(*node);
    bias.used = true;
    bias.shape = {weight->dims(firstDim ? 0 : weight->dims_size() - 1)};
    bias.dataType = weight->data_type();
    known.found.lostBias[node] = index;
    known.remark(node, "bias '" + bias.name + "' of zeros, which the export dropped, is restored");
    return;
  }
}

void rules::arguments(Known &known) {
  for (const Operation &operation : known.program.operations()) {
    auto [reads, lost] =
        operation.hasForm ? readsByForm(known, operation) : readsByOrder(known, operation);
    for (auto [use, index] : reads)
      takeRead(known, operation, *use, index);
    for (size_t index : lost)
      takeLostBias(known, operation, index);
  }
}

namespace {

/// A node without a record that reads an initializer, the nodes that depend on it alone, and the
/// reads of their results, by module.
struct Alone {
  std::vector<const NodeProto *> nodes;
  std::map<std::string, std::vector<Place>> readers;
};

} // namespace

/// The nodes that read each value, by their places in the graph.
using Readers = llvm::StringMap<std::vector<int>>;

static Readers readersIn(const GraphProto &graph) {
  Readers readers;
  for (int at = 0; at < graph.node_size(); ++at)
    for (const std::string &name : graph.node(at).input())
      readers[name].push_back(at);
  return readers;
}

/// `first`: the place of the node that reads the initializer.
static Alone findAlone(const GraphProto &graph, int first, const Readers &readers,
                       const llvm::StringSet<> &constants,
                       const std::map<const NodeProto *, std::string> &scopes) {
  Alone alone;
  llvm::StringSet<> values;
  std::set<int> next = {first};
  while (!next.empty()) {
    int at = *next.begin();
    next.erase(next.begin());
    const NodeProto &node = graph.node(at);
    bool isAlone = at == first || llvm::all_of(node.input(), [&](const std::string &name) {
                     return values.contains(name) || constants.contains(name);
                   });
    if (isAlone) {
      alone.nodes.push_back(&node);
      for (const std::string &name : node.output()) {
        values.insert(name);
        if (auto found = readers.find(name); found != readers.end())
          next.insert(llvm::upper_bound(found->second, at), found->second.end());
      }
    } else if (auto scope = scopes.find(&node); scope != scopes.end()) {
      for (int k = 0; k < node.input_size(); ++k)
        if (values.contains(node.input(k)))
          alone.readers[scope->second].push_back({&node, k});
    }
  }
  return alone;
}

/// The reads of nodes without metadata, such as the Split of a parameter. They read an
/// initializer under its true name, unless the exporter merged it with one of equal elements: then
/// each module that reads the results has its own parameter of this last name. A node with metadata
/// that does not name the parameter reads something else of equal value.
void rules::withoutRecord(Known &known) {
  const TracedProgram &program = known.program;
  llvm::StringSet<> constants;
  for (const TensorProto &tensor : program.graph().initializer())
    constants.insert(tensor.name());
  std::map<const NodeProto *, std::string> scopes;
  for (const Operation &operation : program.operations())
    for (const NodeProto *node : operation.nodes)
      scopes[node] = operation.scope;
  Readers readers = readersIn(program.graph());
  for (int at = 0; at < program.graph().node_size(); ++at) {
    const NodeProto &node = program.graph().node(at);
    for (int i = scopes.count(&node) ? node.input_size() : 0; i < node.input_size(); ++i) {
      const TensorProto *constant = program.initializer(node.input(i));
      std::optional<size_t> target = program.parameterNamed(node.input(i));
      if (!constant || !target || known.isRead(node, i))
        continue;
      Alone alone; // without records no module is known to read the results
      if (!scopes.empty())
        alone = findAlone(program.graph(), at, readers, constants, scopes);
      SmallVector<size_t> own; // parameters of the modules that read the results
      for (size_t index = 0; !alone.readers.empty() && index < known.count(); ++index)
        if (lastOf(known.target(index)) == lastOf(known.target(*target)) &&
            alone.readers.count(moduleOf(known.target(index)).str()))
          own.push_back(index);
      size_t index = own.empty() ? *target : own.front();
      if (known.parameter(index).used && known.parameter(index).initializer != constant)
        continue;
      known.takeReads(index, Place(&node, i));
      known.takeValue(index, {constant});
      for (size_t other : llvm::drop_begin(own, !own.empty())) {
        MergedOperation copy;
        copy.module = moduleOf(known.target(other)).str();
        copy.nodes = alone.nodes;
        copy.uses[{&node, i}] = {other, false};
        known.takeValue(other, {constant});
        known.takeMerged(copy, alone.readers[copy.module]);
        known.remark(&node, "the node, which the export merged for several modules, is computed by "
                            "'" +
                                known.parameter(other).name + "' again");
      }
    }
  }
}
