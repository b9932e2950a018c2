//===- ParameterReads.cpp - Parameters as arguments of operations ---------===//
//
// PyTorch's default export merges initializers of equal value, drops zero
// biases, and stores transposes under new names. Each node's metadata names the
// placeholders that its original operation reads.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Rules/Rules.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Returns whether the initializer that a node reads is the transpose of the
/// parameter: the weight of aten.linear is [out, in], and a matmul without a
/// transpose reads one that was folded.
static bool isTransposed(const TracedOperation &operation, const Use &use) {
  return StringRef(operation.fx.target).starts_with(words::kLinear) && use.operand == 1 &&
         use.initializer->dims_size() == 2 &&
         llvm::is_contained({"MatMul", "Gemm"}, use.node->op_type()) && !readsTransposed(*use.node);
}

/// Takes `use` for a read of a parameter. `meaning`: what the form of the
/// operation says of it; null if it has none.
static void takeRead(Known &known, const TracedOperation &operation, const Use &use, size_t index,
                     const FormFitter::Meaning *meaning) {
  bool isRenamed = use.initializer->name() != known.target(index);
  bool transposed = (meaning && meaning->isTurned) || (isRenamed && isTransposed(operation, use));
  std::optional<Expression> function;
  InitialValue value{use.initializer, transposed};
  if (SmallVector<int64_t> dims = sizesOf(*use.initializer);
      meaning && meaning->isFlat && dims.size() != 1) {
    if (llvm::count(dims, 1) + 1 < int64_t(dims.size())) // it stays missing
      return;
    function = Expression();
    value.shape = {dims.empty() ? 1 : *llvm::max_element(dims)};
    value.dataType = use.initializer->data_type();
  }
  known.takeReads(index, Place(use.node, use.operand), transposed, std::move(function));
  known.readers[index].push_back(
      {operation.scope, StringRef(operation.fx.target).starts_with(words::kEmbedding)});
  if (known.takeValue(index, std::move(value)) && isRenamed)
    known.remarkRestored(use, index, transposed ? "transposed " : "merged ");
}

/// Returns the parameters that an operation's record names, each once.
static SmallVector<size_t> parametersNamedBy(const TracedProgram &program,
                                             const TracedOperation &operation) {
  SmallVector<size_t> named;
  for (const std::string &name : operation.fx.args)
    if (std::optional<size_t> index = program.parameterOf(name);
        index && !llvm::is_contained(named, *index))
      named.push_back(*index);
  return named;
}

/// Takes the bias of zeros that an operation lost for that of its matmul or
/// norm, where it was added.
static void takeLostBias(Known &known, const TracedOperation &operation, size_t index) {
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

/// Takes the reads that the form of an operation shows to be parameters, and, where the form leaves
/// an operand open, the reads of initializers that have the names of its parameters. A bias that
/// its record names and no node reads is lost.
static void takeByForm(Known &known, const TracedOperation &operation) {
  const TracedProgram &program = known.program;
  SmallVector<size_t> named = parametersNamedBy(program, operation), lost(named);
  llvm::erase_if(lost, [&](size_t index) { return !program.isBias(operation, index); });
  for (const Use &use : operation.uses) {
    const FormFitter::Meaning *meaning = program.meaningOf(*use.node, use.operand);
    std::optional<size_t> index = meaning ? program.parameterOf(meaning->value)
                                          : program.parameterNamed(use.initializer->name());
    if (!index || (!meaning && !llvm::is_contained(named, *index)))
      continue;
    takeRead(known, operation, use, *index, meaning);
    llvm::erase(lost, *index);
  }
  for (size_t index : lost)
    takeLostBias(known, operation, index);
}

namespace {

/// A constant that an operation reads without a form, and a parameter that its record names and
/// that it does not read by name: the two may be one.
struct OpenRead {
  const Use *use;
  const TracedOperation *operation;
  size_t parameter;
};

} // namespace

/// Takes the reads of an operation without a form, of initializers that have the names of its
/// parameters.
static void takeByName(Known &known, const TracedOperation &operation,
                       std::vector<OpenRead> &left) {
  SmallVector<size_t> open = parametersNamedBy(known.program, operation);
  SmallVector<size_t> named(open);
  const Use *other = nullptr;
  for (const Use &use : operation.uses) {
    std::optional<size_t> index = known.program.parameterNamed(use.initializer->name());
    if (index && llvm::is_contained(named, *index)) {
      takeRead(known, operation, use, *index, nullptr);
      llvm::erase(open, *index);
    } else if (operation.readsAsItIs()) {
      other = &use;
    }
  }
  for (size_t index : open)
    if (other)
      left.push_back({other, &operation, index});
}

void rules::arguments(Known &known) {
  std::vector<OpenRead> open;
  for (const TracedOperation &operation : known.program.operations())
    if (known.program.hasForm(operation))
      takeByForm(known, operation);
    else
      takeByName(known, operation, open);
  // A parameter that nothing reads is an error elsewhere, and so is a form that does not fit.
  for (auto [use, operation, index] : open)
    if (known.parameter(index).used && !known.isFrozen(index) && !known.program.mismatch())
      known.refuse(Reason::OpenRead, use->node,
                   {use->initializer->name(), plain(displayName(operation->fx.target)),
                    known.parameter(index).name});
}

namespace {

/// A node without a record that reads an initializer, the nodes that depend on
/// it alone, and the reads of their results, by module.
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

/// The reads of nodes without metadata, such as the Split of a parameter. They
/// read an initializer under its true name, unless the exporter merged it with
/// one of equal elements: then each module that reads the results has its own
/// parameter of this last name. A node with metadata that does not name the
/// parameter reads something else of equal value.
void rules::withoutRecord(Known &known) {
  const TracedProgram &program = known.program;
  llvm::StringSet<> constants;
  for (const TensorProto &tensor : program.graph().initializer())
    constants.insert(tensor.name());
  std::map<const NodeProto *, std::string> scopes;
  for (const TracedOperation &operation : program.operations())
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
        known.remark(&node,
                     "the node, which the export merged for several modules, is computed by '" +
                         known.parameter(other).name + "' again");
      }
    }
  }
}
