//===- Parameters.cpp - Which initializers are which parameters -----------===//
//
// PyTorch's default export merges initializers of equal value, drops zero
// biases and stores transposes of Linear weights under new names. The graph's
// metadata lists every parameter by placeholder, and each node's metadata names
// the placeholders that its original operation reads. The parameters are
// recovered from these two.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Parameters.h"
#include "lib/Frontend/ONNX/Record/Finder.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::SmallVectorImpl;
using llvm::StringRef;

bool onnx::isFloatType(int32_t dataType) { return llvm::is_contained({1, 10, 11, 16}, dataType); }

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

/// Makes `use` a read of a parameter. `layout`: how its initializer was made of the parameter, if
/// the operation's form has that.
void Finder::assignOne(const Operation &operation, const Use &use, size_t index,
                       const Layout *layout) {
  Parameter &parameter = out.list[index];
  StringRef target = targets[index], name = use.initializer->name();
  bool renamed = name != target, isMoved = layout && !layout->isPlain();
  bool transposed =
      isMoved ? layout->isTransposedMatrix() : renamed && isTransposed(operation, use);
  ParameterUse read{index, transposed};
  if (isMoved && !transposed) {
    read.expression = out.expressions.size();
    out.expressions.push_back(layout->expression());
  }
  if (isMoved && !transposed && !parameter.used) {
    parameter.shape.assign(layout->shape.begin(), layout->shape.end());
    parameter.dataType = use.initializer->data_type();
    if (layout->movesElements()) {
      std::optional<Numbers> numbers = program.numbersOf(*use.initializer);
      if (!numbers) // it stays missing
        return;
      parameter.values = layout->argumentOf(numbers->values);
    }
  }
  if (!parameter.initializer && parameter.values.empty()) {
    parameter.initializer = use.initializer;
    parameter.transposed = transposed;
    if (renamed)
      remark(use.node, "parameter '" + parameter.name + "' is restored from " +
                           (transposed ? "the transposed" : "the merged") + " initializer '" +
                           displayName(name) + "'");
  }
  parameter.used = true;
  readers[index].push_back(
      {operation.scope, StringRef(operation.fx.target).starts_with(words::kEmbedding)});
  out.uses[{use.node, use.operand}] = read;
}

/// Assigns the reads of which the operation's form has the argument. A bias that no node reads is
/// the lost one.
void Finder::assignByForm(const Operation &operation, llvm::ArrayRef<size_t> wanted) {
  llvm::SmallSetVector<size_t, 4> assigned;
  for (const Use &use : operation.uses) {
    const FormFitter::Meaning *meaning = program.meaningOf(*use.node, use.operand);
    std::optional<size_t> index = meaning ? program.parameterOf(meaning->value) : std::nullopt;
    if (!index ||
        (meaning->isShapeOfConstant && !program.isMadeOf(*use.initializer, targets[*index])))
      continue;
    Parameter &parameter = out.list[*index];
    if (meaning->isShapeOpen && !parameter.used)
      out.repairs.push_back(
          {use.node,
           "parameter '" + parameter.name +
               "', of which the export may have added dimensions, is trained and written as [" +
               llvm::join(llvm::map_range(use.initializer->dims(),
                                          [](int64_t size) { return std::to_string(size); }),
                          ", ") +
               "]. Where PyTorch has another shape, export with optimize=False",
           /*isNote=*/true});
    assignOne(operation, use, *index, meaning->layout ? &*meaning->layout : nullptr);
    assigned.insert(*index);
  }
  for (size_t index : wanted)
    if (!assigned.contains(index) && program.isBias(operation, index))
      loseBias(operation, index);
}

void Finder::assign(const Operation &operation) {
  SmallVector<size_t> wanted;
  for (const std::string &name : operation.fx.args) {
    std::optional<size_t> index = program.parameterOf(name);
    if (index && !llvm::is_contained(wanted, *index))
      wanted.push_back(*index);
  }
  if (wanted.empty())
    return;
  if (operation.hasForm)
    return assignByForm(operation, wanted);
  // aten.addmm reads its bias first, the ONNX product last.
  if (StringRef(operation.fx.target).starts_with(words::kAddmm) && wanted.size() > 1 &&
      !operation.fx.args.empty() && program.parameterOf(operation.fx.args.front()))
    std::rotate(wanted.begin(), wanted.begin() + 1, wanted.end());

  SmallVector<const Use *> uses;
  for (const Use &use : operation.uses) {
    auto *exact = llvm::find_if(
        wanted, [&](size_t index) { return targets[index] == use.initializer->name(); });
    if (exact != wanted.end())
      assignOne(operation, use, *exact);
    else if (program.readsAsItIs(operation, use))
      uses.push_back(&use);
  }
  llvm::erase_if(wanted, [&](size_t index) {
    return llvm::any_of(operation.uses,
                        [&](const Use &use) { return targets[index] == use.initializer->name(); });
  });
  if (uses.size() > wanted.size())
    llvm::erase_if(uses, [](const Use *use) { return isScalar(*use->initializer); });
  auto isAmbiguous = [&] {
    std::set<const TensorProto *> distinct;
    for (const Use *use : uses)
      distinct.insert(use->initializer);
    return distinct.size() > wanted.size();
  };
  if (isAmbiguous()) // what was folded from other values is none of the parameters
    llvm::erase_if(uses, [&](const Use *use) {
      llvm::ArrayRef<std::string> from = program.foldedFrom(use->initializer->name());
      return !from.empty() && llvm::none_of(wanted, [&](size_t index) {
        return llvm::is_contained(from, targets[index]);
      });
    });
  if (isAmbiguous())
    return;
  // Exporters drop biases but no weights, so the first operands win.
  // A bias alone that meets a matrix is the lost one. A weight from which an equal operation first
  // computed something is not read here.
  auto sizes = [](const TensorProto &tensor) { // in any order and layout
    SmallVector<int64_t> sizes(
        llvm::make_filter_range(tensor.dims(), [](int64_t size) { return size != 1; }));
    llvm::sort(sizes);
    return sizes;
  };
  auto fits = [&](size_t index, const Use &use) {
    if (program.isBias(operation, index))
      return sizes(*use.initializer).size() <= 1;
    const TensorProto *known = out.list[index].initializer;
    return !known || sizes(*known) == sizes(*use.initializer);
  };
  size_t next = 0;
  for (size_t index : wanted) {
    if (next < uses.size() && fits(index, *uses[next])) {
      const TensorProto *taken = uses[next]->initializer;
      assignOne(operation, *uses[next++], index);
      // Several nodes of one operation may read it.
      while (next < uses.size() && uses[next]->initializer == taken && uses.size() > wanted.size())
        assignOne(operation, *uses[next++], index);
    } else if (program.isBias(operation, index)) {
      loseBias(operation, index);
    }
  }
}

/// Removes from `names`, which an operation reads and no node has, those for which it reads a value
/// of another node.
void Finder::dropComputed(const Operation &operation, SmallVectorImpl<StringRef> &names) const {
  llvm::StringSet<> computed = program.unnamedInputs(operation);
  SmallVector<StringRef> moved;
  for (StringRef name : names)
    if (isMovement(operationOf(name)))
      moved.push_back(name);
  if (computed.size() >= names.size())
    names.clear();
  else if (computed.size() == moved.size()) // a movement that changes nothing is left out
    llvm::erase_if(names, [&](StringRef name) { return llvm::is_contained(moved, name); });
}

/// Returns reads of float initializers that belong to no parameter. A value that a node of the
/// exported program reads and no node computes was folded. One-element numbers for which no such
/// name is left are the exporter's own.
std::vector<FoldedRead> Finder::unexplainedReads() {
  std::vector<FoldedRead> reads;
  auto add = [&](const Use &use, StringRef name, StringRef scope, const std::string &op,
                 bool isComputed, const Operation *reader = nullptr) {
    // An initializer has its value's name, unless it was merged with another one.
    reads.push_back({use, name.str(), op, isComputed, scope.str(), readSourceText(*use.node).str(),
                     reader ? program.readerOf(*reader, name) : Reader()});
  };
  llvm::StringSet<> others; // initializers of other types
  for (const TensorProto &tensor : graph.initializer())
    if (!isFloat(tensor))
      others.insert(tensor.name());
  std::set<const NodeProto *> seen;
  for (const Operation &operation : program.operations()) {
    seen.insert(operation.nodes.begin(), operation.nodes.end());
    SmallVector<const Use *> tensors, numbers;
    for (const Use &use : operation.uses)
      if (const FormFitter::Meaning *meaning = program.meaningOf(*use.node, use.operand);
          !out.uses.count({use.node, use.operand}) && !(meaning && meaning->isNumber))
        (isScalar(*use.initializer) ? numbers : tensors).push_back(&use);
    SmallVector<StringRef> names = program.missingNames(operation);
    // If an operation reads no folded value, its other initializers come from the exporter itself
    // (the weight of a norm without one), except for operations that compute with a parameter
    // first.
    bool computes =
        llvm::any_of(tensors,
                     [&](const Use *use) { return !program.readsAsItIs(operation, *use); }) &&
        llvm::any_of(operation.fx.args, [&](const std::string &name) {
          return program.parameterOf(name).has_value();
        });
    auto isMissing = [&](size_t index) { return !out.list[index].used; };
    bool missesOne = llvm::any_of(operation.fx.args, [&](const std::string &name) {
      std::optional<size_t> index = program.parameterOf(name);
      return index && isMissing(*index);
    });
    missesOne |= llvm::any_of(tensors, [&](const Use *use) {
      auto target = llvm::find(targets, use->initializer->name());
      return target != targets.end() && isMissing(target - targets.begin());
    });
    if (names.empty() && !missesOne && !computes)
      continue;
    // A folded value of another type, such as a mask, is read under its name or under that of an
    // equal one.
    for (const NodeProto *node : operation.nodes)
      for (const std::string &input : node->input()) {
        auto *read = llvm::find(names, input);
        if (read == names.end() && others.contains(input))
          read = llvm::find_if(
              names, [&](StringRef name) { return operationOf(name) == operationOf(input); });
        if (read != names.end() && !program.initializer(input))
          names.erase(read);
      }
    dropComputed(operation, names);
    auto takeName = [&](const Use &use, size_t uses) -> StringRef {
      auto own = llvm::find(names, StringRef(use.initializer->name()));
      if (operation.weight && operation.weight->node == use.node &&
          operation.weight->operand == use.operand)
        own = llvm::find(names, operation.fx.args.back());
      if (own == names.end() && (names.size() != 1 || uses > 1))
        return "";
      StringRef name = own != names.end() ? *own : names.front();
      names.erase(llvm::find(names, name));
      return name;
    };
    // If the operation computes with the operand first and no name is left, the computation is
    // taken to be a product, since only the factor is known.
    auto addNamed = [&](const Use &use, StringRef name) {
      StringRef own = name.empty() ? StringRef(use.initializer->name()) : name;
      bool isAsItIs = program.readsAsItIs(operation, use);
      add(use, own, operation.scope,
          isAsItIs       ? operationOf(own)
          : name.empty() ? "mul"
                         : "",
          /*isComputed=*/!isAsItIs && !name.empty(), &operation);
    };
    for (const Use *use : tensors)
      addNamed(*use, takeName(*use, tensors.size()));
    for (const Use *use : numbers)
      if (StringRef name = takeName(*use, numbers.size()); !name.empty())
        addNamed(*use, name);
    // A value that it names and does not read was removed, like a bias of zeros.
    if (!isMovement(operation.kind()) && !isMadeByCode(operation.kind()))
      for (StringRef name : names)
        noteRemoved(name, operation.scope);
  }
  for (const NodeProto &node : graph.node())
    for (int i = 0; i < node.input_size(); ++i) {
      const TensorProto *constant = program.initializer(node.input(i));
      if (constant && !seen.count(&node) && !isScalar(*constant) && !out.uses.count({&node, i}))
        add({&node, i, constant}, node.input(i), readScope(node).value_or(""),
            operationOf(node.input(i)), /*isComputed=*/false);
    }
  return reads;
}

/// Makes reads of 1 - w read the parameter that w comes from.
void Finder::restoreComplements() {
  for (const Operation &operation : program.operations()) {
    for (const Use &use : operation.complements) {
      auto read = out.uses.find({operation.weight->node, operation.weight->operand});
      if (read == out.uses.end())
        continue;
      ParameterUse complement = read->second;
      Expression weight = complement.expression < 0 ? Expression::ofInput()
                                                    : out.expressions[complement.expression];
      complement.expression = out.expressions.size();
      out.uses[{use.node, use.operand}] = complement;
      out.expressions.push_back(Expression::of("sub", Expression::ofNumber(1), std::move(weight)));
    }
  }
}

/// Returns the parameters that an operation names but no node reads.
llvm::SmallSetVector<size_t, 4> Finder::missingOperands() const {
  llvm::SmallSetVector<size_t, 4> missing;
  for (const Operation &operation : program.operations())
    for (const std::string &name : operation.fx.args) {
      std::optional<size_t> index = program.parameterOf(name);
      if (index && out.list[*index].isParameter && !out.list[*index].used && !isAlias[*index])
        missing.insert(*index);
    }
  return missing;
}

/// Assigns the reads of nodes without metadata, such as the Split of a parameter. They read an
/// initializer under its true name, unless the exporter merged it with one of equal elements: then
/// each module that reads the results has its own parameter of this last name. A node with metadata
/// that does not name the parameter reads something else of equal value.
void Finder::assignWithoutMetadata() {
  llvm::StringSet<> constants;
  for (const TensorProto &tensor : graph.initializer())
    constants.insert(tensor.name());
  std::map<const NodeProto *, std::string> scopes;
  for (const Operation &operation : program.operations())
    for (const NodeProto *node : operation.nodes)
      scopes[node] = operation.scope;
  for (const NodeProto &node : graph.node())
    for (int i = scopes.count(&node) ? node.input_size() : 0; i < node.input_size(); ++i) {
      const TensorProto *constant = program.initializer(node.input(i));
      auto target = llvm::find(targets, node.input(i));
      if (!constant || target == targets.end() || out.uses.count({&node, i}))
        continue;
      // The nodes that depend on it alone, and the modules that read their results.
      std::vector<const NodeProto *> alone = {&node};
      llvm::StringSet<> values;
      std::map<std::string, std::vector<std::pair<const NodeProto *, int>>> readers;
      for (const NodeProto &other : graph.node()) {
        auto isOurs = [&](const std::string &name) { return values.contains(name); };
        bool isAlone = llvm::any_of(other.input(), isOurs) &&
                       llvm::all_of(other.input(), [&](const std::string &name) {
                         return values.contains(name) || constants.contains(name);
                       });
        if (isAlone)
          alone.push_back(&other);
        if (&other == &node || alone.back() == &other)
          for (const std::string &name : other.output())
            values.insert(name);
        else if (auto scope = scopes.find(&other); scope != scopes.end())
          for (int k = 0; k < other.input_size(); ++k)
            if (values.contains(other.input(k)))
              readers[scope->second].push_back({&other, k});
      }
      std::vector<size_t> found;
      for (size_t index = 0; index < targets.size(); ++index)
        if (lastOf(targets[index]) == lastOf(*target) &&
            readers.count(moduleOf(targets[index]).str()))
          found.push_back(index);
      size_t index = found.empty() ? target - targets.begin() : found.front();
      if (out.list[index].used && out.list[index].initializer != constant)
        continue;
      out.list[index].used = true;
      out.list[index].initializer = constant;
      out.uses[{&node, i}] = {index, false};
      for (size_t other : llvm::drop_begin(found, !found.empty())) {
        MergedOperation copy;
        copy.module = moduleOf(targets[other]).str();
        copy.nodes = alone;
        copy.uses[{&node, i}] = {other, false};
        for (const auto &read : readers[copy.module])
          out.readsOfMerged[read] = out.merged.size();
        out.merged.push_back(std::move(copy));
        out.list[other].used = true;
        out.list[other].initializer = constant;
        remark(&node, "the node, which the export merged for several modules, is computed by '" +
                          out.list[other].name + "' again");
      }
    }
}

/// Returns the first component of all names with its dot: that of the module in which export.py
/// wrapped the user's, which the file records. Without a record it is taken for one if each name
/// has a further component. Empty if there is none.
static std::string wrapperOf(const GraphProto &graph, llvm::ArrayRef<SignatureEntry> signature) {
  StringRef recorded = metadata(graph.metadata_props(), words::kWrapper);
  StringRef first =
      recorded.empty() ? StringRef(signature.front().target).split('.').first : recorded;
  bool shared = llvm::all_of(signature, [&](const SignatureEntry &entry) {
    auto [head, rest] = StringRef(entry.target).split('.');
    return head == first && (recorded.empty() ? rest.contains('.') : !rest.empty());
  });
  return shared ? (first + ".").str() : "";
}

void Finder::bySignature() {
  if (!options.keepPrefix)
    out.prefix = wrapperOf(graph, program.signature());
  llvm::StringSet<> changed;
  for (const auto &entry : readChanged(graph))
    changed.insert(entry.second);
  for (const SignatureEntry &entry : program.signature()) {
    StringRef name = entry.target;
    name.consume_front(out.prefix);
    out.list.push_back({name.str(), {}, entry.isParameter});
    out.list.back().isChanged = !entry.isParameter && changed.contains(entry.target);
  }
  audit();
  for (const Operation &operation : program.operations())
    assign(operation);
  assignWithoutMetadata();
  restoreDetached();
  refuseSharedStops();
  refuseIndistinct();
  splitMergedOperations();
  isAlias.assign(out.list.size(), false);
  findSecondNames(/*byModule=*/true);
  findSharedTables();
  findSecondBiases();
  FoldedParameters folded(program, options, out);
  std::vector<FoldedRead> reads = unexplainedReads(); // fills `removed`, too
  std::vector<RemovedRead> readsOfRemoved = removedReads();
  size_t count = removed.size();
  for (const Merged &one : pending)
    removed.push_back({one.name, readScope(*one.reads.front().first).value_or("")});
  folded.restore(std::move(reads), readsOfRemoved, removed, isAlias);
  llvm::erase_if(pending, [&](const Merged &one) { return folded.isRestored(one.name); });
  restoreComplements();
  splitPending();
  removed.resize(count);
  for (const Merged &one : pending)
    removed.push_back({one.name, ""});
  llvm::erase_if(removed, [&](const RemovedOperation &one) { return folded.isRestored(one.name); });
  if (folded.isExplained() && removed.empty())
    findSecondNames(/*byModule=*/false);
  restoreRemovedSums(readsOfRemoved);
  refuseMerged();
  folded.report(isAlias, missingOperands(), removed);
  if (out.errors.empty())
    refuseNeutral(readsOfRemoved);
  takeFirstNames();
}

Parameters onnx::findParameters(Model &model, const ParameterOptions &options) {
  Parameters out;
  out.hasSignature = !readSignature(model.proto().graph()).empty();
  if (out.hasSignature) {
    Finder(model, options, out).bySignature();
  } else {
    findByRule(model, options, out);
  }
  for (const auto &[read, use] : out.uses)
    if (Parameter &buffer = out.list[use.parameter]; !buffer.isParameter)
      buffer.isChanged |= changesBuffer(*read.first, read.second);
  return out;
}
