//===- Parameters.cpp - Which initializers are which parameters -----------===//
#include "lib/Frontend/ONNX/Record/Parameters.h"
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

bool onnx::isFloatType(int32_t dataType) { return llvm::is_contained({1, 10, 11, 16}, dataType); }

/// Source: onnx.proto, TensorProto.DataType.
bool onnx::isInteger(const TensorProto &tensor) {
  return llvm::is_contained({2, 3, 4, 5, 6, 7, 12, 13}, tensor.data_type());
}

bool onnx::isScalar(const TensorProto &tensor) {
  return llvm::all_of(tensor.dims(), [](int64_t size) { return size == 1; });
}

/// Returns whether the initializer that a node reads is the transpose of the parameter: the weight
/// of aten.linear is [out, in], and a product without a transpose reads one that was folded.
static bool isTransposed(const Operation &operation, const Use &use) {
  if (!StringRef(operation.fx.target).starts_with(words::kLinear) || use.operand != 1 ||
      use.initializer->dims_size() != 2)
    return false;
  bool transB = false;
  for (const AttributeProto &attribute : use.node->attribute())
    if (attribute.name() == "transB")
      transB = attribute.i() != 0;
  return (use.node->op_type() == "MatMul" || use.node->op_type() == "Gemm") && !transB;
}

/// Adds the claim that `use` reads a parameter. `layout`: how its initializer was made of the
/// parameter, if the operation's form has that.
static void claimRead(Findings &findings, Evidence evidence, const Known &known,
                      const Operation &operation, const Use &use, size_t index,
                      const Layout *layout = nullptr, std::optional<Repair> note = std::nullopt) {
  bool isRenamed = use.initializer->name() != known.target(index);
  bool isMoved = layout && !layout->isPlain();
  bool transposed =
      isMoved ? layout->isTransposedMatrix() : isRenamed && isTransposed(operation, use);
  ReadClaim read{index, {{use.node, use.operand}}, transposed};
  read.operation = &operation;
  InitialValue value{use.initializer, transposed};
  if (isMoved && !transposed) {
    read.expression = layout->expression();
    value.shape = std::vector<int64_t>(layout->shape.begin(), layout->shape.end());
    value.dataType = use.initializer->data_type();
    if (layout->movesElements() && !known.parameter(index).used) {
      std::optional<Numbers> numbers = known.program.numbersOf(*use.initializer);
      if (!numbers) // it stays missing
        return;
      value.values = layout->argumentOf(numbers->values);
    }
  }
  findings.claim(evidence, std::move(read), std::move(note));
  std::optional<Repair> remark;
  if (isRenamed)
    remark = messages::restoredFrom(use, known.parameter(index).name, transposed, "merged ");
  findings.claim(evidence, ValueClaim{index, std::move(value)}, std::move(remark));
}

SmallVector<size_t> onnx::parametersNamedBy(const TracedProgram &program,
                                            const Operation &operation) {
  SmallVector<size_t> named;
  for (const std::string &name : operation.fx.args)
    if (std::optional<size_t> index = program.parameterOf(name);
        index && !llvm::is_contained(named, *index))
      named.push_back(*index);
  return named;
}

SmallVector<std::pair<const Use *, size_t>> onnx::readsByForm(const Known &known,
                                                              const Operation &operation) {
  SmallVector<std::pair<const Use *, size_t>> reads;
  if (!operation.hasForm)
    return reads;
  const TracedProgram &program = known.program;
  for (const Use &use : operation.uses) {
    const FormFitter::Meaning *meaning = program.meaningOf(*use.node, use.operand);
    std::optional<size_t> index = meaning ? program.parameterOf(meaning->value) : std::nullopt;
    if (index && !(meaning->isShapeOfConstant &&
                   !program.isMadeOf(*use.initializer, program.target(*index))))
      reads.push_back({&use, *index});
  }
  return reads;
}

/// The reads of which the operation's form has the argument.
Findings rules::argumentsByForm(const Known &known, const Operation &operation) {
  Findings findings;
  std::set<size_t> noted;
  for (auto [use, index] : readsByForm(known, operation)) {
    const FormFitter::Meaning *meaning = known.program.meaningOf(*use->node, use->operand);
    const Parameter &parameter = known.parameter(index);
    std::optional<Repair> note;
    if (meaning->isShapeOpen && !parameter.used && noted.insert(index).second)
      note = messages::openShape(*use, parameter.name);
    claimRead(findings, Evidence::Form, known, operation, *use, index,
              meaning->layout ? &*meaning->layout : nullptr, std::move(note));
  }
  return findings;
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

ReadsByOrder onnx::readsByOrder(const Known &known, const Operation &operation) {
  ReadsByOrder found;
  const TracedProgram &program = known.program;
  SmallVector<size_t> wanted = parametersNamedBy(program, operation);
  if (wanted.empty() || operation.hasForm)
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

/// The reads of an operation without a form: of initializers with the parameters' names, and of the
/// others in their order.
Findings rules::argumentsByOrder(const Known &known, const Operation &operation) {
  Findings findings;
  for (auto [use, index] : readsByOrder(known, operation).reads)
    claimRead(findings,
              known.target(index) == use->initializer->name() ? Evidence::Name : Evidence::Order,
              known, operation, *use, index);
  return findings;
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
Findings rules::withoutRecord(const Known &known) {
  Findings findings;
  const TracedProgram &program = known.program;
  llvm::StringSet<> constants;
  for (const TensorProto &tensor : program.graph().initializer())
    constants.insert(tensor.name());
  std::map<const NodeProto *, std::string> scopes;
  for (const Operation &operation : program.operations())
    for (const NodeProto *node : operation.nodes)
      scopes[node] = operation.scope;
  std::map<size_t, const TensorProto *> values; // that this rule claims
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
      for (size_t index = 0; !alone.readers.empty() && index < program.targets().size(); ++index)
        if (lastOf(program.target(index)) == lastOf(program.target(*target)) &&
            alone.readers.count(moduleOf(program.target(index)).str()))
          own.push_back(index);
      size_t index = own.empty() ? *target : own.front();
      auto claimed = values.find(index);
      const TensorProto *value = claimed != values.end()       ? claimed->second
                                 : known.parameter(index).used ? known.parameter(index).initializer
                                                               : constant;
      if (value != constant)
        continue;
      values[index] = constant;
      findings.claim(Evidence::Name, ReadClaim{index, {{&node, i}}});
      findings.claim(Evidence::Name, ValueClaim{index, {constant}});
      for (size_t other : llvm::drop_begin(own, !own.empty())) {
        MergedClaim merged;
        merged.operation.module = moduleOf(program.target(other)).str();
        merged.operation.nodes = alone.nodes;
        merged.operation.uses[{&node, i}] = {other, false};
        llvm::append_range(merged.reads, alone.readers[merged.operation.module]);
        findings.claim(Evidence::Name, ValueClaim{other, {constant}});
        values[other] = constant;
        findings.claim(Evidence::Name, std::move(merged),
                       messages::mergedForModules(node, known.parameter(other).name));
      }
    }
  }
  return findings;
}

Parameters onnx::findParameters(Model &model, const ParameterOptions &options) {
  Parameters out;
  out.hasSignature = !readSignature(model.proto().graph()).empty();
  if (out.hasSignature)
    findBySignature(model, options, out);
  else
    findByRule(model, options, out);
  for (const auto &[read, use] : out.uses)
    if (Parameter &buffer = out.list[use.parameter]; !buffer.isParameter)
      buffer.isChanged |= changesBuffer(*read.first, read.second);
  return out;
}
