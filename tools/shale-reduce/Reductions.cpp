//===- Reductions.cpp - Ways to make a module smaller ---------------------===//
#include "tools/shale-reduce/Reductions.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include <functional>

using namespace mlir;
using namespace shale;

namespace {

/// All ops in the module, outer ones first.
template <typename Fn> void forEachOp(ModuleOp module, Fn &&visit) {
  module.getBodyRegion().walk<WalkOrder::PreOrder>([&](Operation *op) { visit(op); });
}

bool isTerminator(Operation *op) { return op->hasTrait<OpTrait::IsTerminator>(); }

bool isConstant(Operation *op) { return op->hasTrait<OpTrait::ConstantLike>(); }

/// The terminator of an op's only block, if it hands its operands on as the op's results.
Operation *getYield(Operation *op) {
  if (op->getNumRegions() != 1 || !op->getRegion(0).hasOneBlock())
    return nullptr;
  Block &body = op->getRegion(0).front();
  if (body.empty() || !isTerminator(&body.back()))
    return nullptr;
  return llvm::equal(body.back().getOperandTypes(), op->getResultTypes()) ? &body.back() : nullptr;
}

/// Whether the arguments of an op's only block are its operands.
bool hasOperandsAsArguments(Operation *op) {
  return op->getNumRegions() == 1 && op->getRegion(0).hasOneBlock() &&
         llvm::equal(op->getRegion(0).getArgumentTypes(), op->getOperandTypes());
}

/// A zero of this type, as an op of the first dialect that makes one: that of `at`, of its
/// parents, and all others. Null if no dialect does.
Value makeConstant(Operation *at, Type type, OpBuilder &builder) {
  Attribute zero = builder.getZeroAttr(type);
  if (!zero)
    return Value();
  SmallVector<Dialect *> dialects;
  for (Operation *op = at; op; op = op->getParentOp())
    dialects.push_back(op->getDialect());
  llvm::append_range(dialects, type.getContext()->getLoadedDialects());
  for (Dialect *dialect : dialects)
    if (Operation *op =
            dialect ? dialect->materializeConstant(builder, zero, type, at->getLoc()) : nullptr)
      return op->getResult(0);
  return Value();
}

//===- Symbols ------------------------------------------------------------===//

/// Removes symbols to which nothing that stays refers.
void dropSymbols(ModuleOp module, Part &part) {
  llvm::MapVector<Operation *, StringAttr> taken;
  forEachOp(module, [&](Operation *op) {
    if (auto name = op->getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName()))
      if (part.takes())
        taken.insert({op, name});
  });
  // Keep the symbols that a kept symbol refers to.
  llvm::DenseSet<Attribute> used;
  AttrTypeWalker walker;
  walker.addWalk([&](SymbolRefAttr symbol) {
    used.insert(symbol.getRootReference());
    for (FlatSymbolRefAttr nested : symbol.getNestedReferences())
      used.insert(nested.getAttr());
  });
  auto addUses = [&](Operation *op) { walker.walk(op->getAttrDictionary()); };
  addUses(module);
  std::function<void(Operation *)> addAll = [&](Operation *root) {
    root->walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (taken.contains(op))
        return WalkResult::skip();
      addUses(op);
      return WalkResult::advance();
    });
  };
  for (Operation &op : module.getOps())
    addAll(&op);
  for (bool changed = true; changed;) {
    changed = false;
    for (auto &[op, name] : llvm::to_vector(taken))
      if (used.contains(name)) {
        taken.erase(op);
        addAll(op);
        changed = true;
      }
  }
  for (auto &[op, name] : llvm::reverse(taken))
    op->erase();
}

/// Turns functions into declarations.
void dropBodies(ModuleOp module, Part &part) {
  SmallVector<FunctionOpInterface> taken;
  forEachOp(module, [&](Operation *op) {
    auto function = dyn_cast<FunctionOpInterface>(op);
    if (function && !function.isExternal() && part.takes())
      taken.push_back(function);
  });
  for (FunctionOpInterface function : taken) {
    function.eraseBody();
    SymbolTable::setSymbolVisibility(function, SymbolTable::Visibility::Private);
  }
}

//===- Ops ----------------------------------------------------------------===//

/// Deletes ops. What reads a result reads another value instead.
class OpRemover {
public:
  /// With `preferConstants`, a constant is the first choice, not the last.
  OpRemover(ModuleOp module, Part &part, bool preferConstants) : preferConstants(preferConstants) {
    forEachOp(module, [&](Operation *op) {
      if (!isTerminator(op) && !(preferConstants && (isConstant(op) || op->use_empty())) &&
          part.takes())
        taken.insert(op);
    });
    for (Operation &op : llvm::make_early_inc_range(module.getOps()))
      visit(&op, {});
    for (Operation *op : llvm::reverse(added))
      if (op->use_empty())
        op->erase();
  }

private:
  /// The first value of each type that is there at some op.
  using Values = llvm::MapVector<Type, Value>;

  /// Returns whether the op stays.
  bool visit(Operation *op, const Values &values) {
    if (taken.contains(op) && remove(op, values))
      return false;
    bool isIsolated = op->hasTrait<OpTrait::IsIsolatedFromAbove>();
    for (Region &region : op->getRegions())
      for (Block &block : region) {
        Values inside = isIsolated ? Values() : values;
        for (Value argument : block.getArguments())
          inside.try_emplace(argument.getType(), argument);
        for (Operation &inner : llvm::make_early_inc_range(block)) {
          size_t before = added.size();
          bool stays = visit(&inner, inside);
          for (Operation *constant : ArrayRef(added).drop_front(before))
            if (constant->getBlock() == &block)
              inside.try_emplace(constant->getResult(0).getType(), constant->getResult(0));
          if (stays)
            for (Value result : inner.getResults())
              inside.try_emplace(result.getType(), result);
        }
      }
    return true;
  }

  /// Returns false, and leaves the op, if a result has no replacement.
  bool remove(Operation *op, const Values &values) {
    OpBuilder builder(op);
    SmallVector<Value> replacements;
    for (Value result : op->getResults()) {
      if (result.use_empty()) {
        replacements.push_back(Value());
        continue;
      }
      Value replacement = find(op, result.getType(), values, builder);
      if (!replacement)
        return false;
      replacements.push_back(replacement);
    }
    for (auto [result, replacement] : llvm::zip(op->getResults(), replacements))
      if (replacement)
        result.replaceAllUsesWith(replacement);
    op->erase();
    return true;
  }

  Value find(Operation *op, Type type, const Values &values, OpBuilder &builder) {
    if (preferConstants)
      if (Value constant = addConstant(op, type, builder))
        return constant;
    for (Value operand : op->getOperands())
      if (operand.getType() == type && operand.getDefiningOp() != op)
        return operand;
    if (auto it = values.find(type); it != values.end())
      return it->second;
    return preferConstants ? Value() : addConstant(op, type, builder);
  }

  Value addConstant(Operation *op, Type type, OpBuilder &builder) {
    Value constant = makeConstant(op, type, builder);
    if (constant)
      added.push_back(constant.getDefiningOp());
    return constant;
  }

  bool preferConstants;
  llvm::DenseSet<Operation *> taken;
  SmallVector<Operation *> added;
};

void dropOps(ModuleOp module, Part &part) { OpRemover(module, part, /*preferConstants=*/false); }

void replaceByConstants(ModuleOp module, Part &part) {
  OpRemover(module, part, /*preferConstants=*/true);
}

/// Replaces an op with a region by the region's ops.
void inlineRegions(ModuleOp module, Part &part) {
  SmallVector<Operation *> taken;
  forEachOp(module, [&](Operation *op) {
    bool fits =
        getYield(op) && (op->getRegion(0).getNumArguments() == 0 || hasOperandsAsArguments(op));
    if (fits && !isa<SymbolOpInterface>(op) && part.takes())
      taken.push_back(op);
  });
  for (Operation *op : llvm::reverse(taken)) { // inner ones first
    Block &body = op->getRegion(0).front();
    for (auto [argument, operand] : llvm::zip(body.getArguments(), op->getOperands()))
      argument.replaceAllUsesWith(operand);
    op->replaceAllUsesWith(body.back().getOperands());
    body.back().erase();
    op->getBlock()->getOperations().splice(op->getIterator(), body.getOperations());
    op->erase();
  }
}

//===- Arguments and results ----------------------------------------------===//

/// A bit per index; those that part takes are set.
BitVector takeSome(unsigned count, Part &part, llvm::function_ref<bool(unsigned)> fits) {
  BitVector taken(count);
  for (unsigned i = 0; i < count; ++i)
    if (fits(i) && part.takes())
      taken.set(i);
  return taken;
}

/// Calls of each function, by its name.
using Calls = llvm::DenseMap<Attribute, SmallVector<CallOpInterface>>;

Calls collectCalls(ModuleOp module) {
  Calls calls;
  module.walk([&](CallOpInterface call) {
    if (auto symbol = dyn_cast<SymbolRefAttr>(call.getCallableForCallee()))
      calls[symbol.getLeafReference()].push_back(call);
  });
  return calls;
}

/// Makes the op again without these results, which have no uses.
Operation *eraseResults(Operation *op, const BitVector &erased) {
  SmallVector<Type> types;
  for (OpResult result : op->getResults())
    if (!erased.test(result.getResultNumber()))
      types.push_back(result.getType());
  OpBuilder builder(op);
  OperationState state(op->getLoc(), op->getName(), op->getOperands(), types, op->getAttrs(),
                       op->getSuccessors());
  for (Region &region : op->getRegions())
    state.addRegion()->takeBody(region);
  Operation *made = builder.create(state);
  for (unsigned i = 0, next = 0; i < op->getNumResults(); ++i)
    if (!erased.test(i))
      op->getResult(i).replaceAllUsesWith(made->getResult(next++));
  op->erase();
  return made;
}

/// Drops results of functions, and results of ops with a region that nothing uses.
void dropResults(ModuleOp module, Part &part) {
  llvm::MapVector<Operation *, BitVector> taken;
  Calls calls = collectCalls(module);
  forEachOp(module, [&](Operation *op) {
    if (auto function = dyn_cast<FunctionOpInterface>(op)) {
      auto &callers = calls[SymbolTable::getSymbolName(op)];
      taken[op] = takeSome(function.getNumResults(), part, [&](unsigned i) {
        return llvm::all_of(callers, [&](CallOpInterface call) {
          return i < call->getNumResults() && call->getResult(i).use_empty();
        });
      });
    } else if (op->getNumResults() && getYield(op)) {
      taken[op] = takeSome(op->getNumResults(), part,
                           [&](unsigned i) { return op->getResult(i).use_empty(); });
    }
  });
  for (auto &[op, erased] : llvm::reverse(taken)) { // inner ones first: an outer one moves them
    if (erased.none())
      continue;
    auto function = dyn_cast<FunctionOpInterface>(op);
    if (!function) {
      getYield(op)->eraseOperands(erased);
      eraseResults(op, erased);
      continue;
    }
    unsigned count = function.getNumResults();
    if (failed(function.eraseResults(erased)))
      continue;
    for (Block &block : function.getFunctionBody())
      if (!block.empty() && isTerminator(&block.back()) && block.back().getNumOperands() == count)
        block.back().eraseOperands(erased);
    for (CallOpInterface call : calls[SymbolTable::getSymbolName(op)])
      eraseResults(call, erased);
  }
}

/// Ends functions earlier: they return the results of an op, and what follows it is gone. Callers
/// may not use the results.
void returnEarlier(ModuleOp module, Part &part) {
  llvm::MapVector<Operation *, Operation *> last; // of functions
  Calls calls = collectCalls(module);
  for (auto function : module.getOps<FunctionOpInterface>()) {
    if (function.isExternal() || !function.getFunctionBody().hasOneBlock() ||
        !calls[SymbolTable::getSymbolName(function)].empty())
      continue;
    Block &body = function.getFunctionBody().front();
    if (body.empty() || !isTerminator(&body.back()))
      continue;
    // The op before the terminator is not a target if it is returned already.
    for (Operation &op : body.without_terminator())
      if (!llvm::equal(op.getResults(), body.back().getOperands()) && part.takes())
        last.insert({function, &op});
  }
  for (auto [op, end] : last) {
    auto function = cast<FunctionOpInterface>(op);
    Block &body = function.getFunctionBody().front();
    body.back().setOperands(end->getResults());
    while (body.back().getPrevNode() != end)
      body.back().getPrevNode()->erase();
    function.setType(function.cloneTypeWith(function.getArgumentTypes(), end->getResultTypes()));
    function.removeResAttrsAttr();
  }
}

/// Drops arguments of functions and of regions whose arguments are the op's operands. What reads
/// one reads another argument or a constant instead.
void dropArguments(ModuleOp module, Part &part) {
  llvm::MapVector<Operation *, BitVector> taken;
  Calls calls = collectCalls(module);
  forEachOp(module, [&](Operation *op) {
    auto function = dyn_cast<FunctionOpInterface>(op);
    if (function || hasOperandsAsArguments(op))
      taken[op] = takeSome(function ? function.getNumArguments() : op->getNumOperands(), part,
                           [](unsigned) { return true; });
  });
  for (auto &[op, erased] : taken) {
    auto function = dyn_cast<FunctionOpInterface>(op);
    bool isExternal = function && function.isExternal();
    if (isExternal)
      function.addEntryBlock(); // eraseArguments needs one
    Block &body = op->getRegion(0).front();
    OpBuilder builder = OpBuilder::atBlockBegin(&body);
    for (int i : erased.set_bits()) {
      BlockArgument argument = body.getArgument(i);
      if (argument.use_empty())
        continue;
      Value other;
      for (BlockArgument kept : body.getArguments())
        if (!other && !erased.test(kept.getArgNumber()) && kept.getType() == argument.getType())
          other = kept;
      if (!other && !body.empty())
        other = makeConstant(&body.front(), argument.getType(), builder);
      if (other)
        argument.replaceAllUsesWith(other);
      else
        erased.reset(i);
    }
    if (!function) {
      body.eraseArguments(erased);
      op->eraseOperands(erased);
    } else if (succeeded(function.eraseArguments(erased))) {
      for (CallOpInterface call : calls[SymbolTable::getSymbolName(op)])
        for (int i = erased.size() - 1; i >= 0; --i)
          if (erased.test(i) && i < int(call.getArgOperands().size()))
            call.getArgOperandsMutable().erase(i);
    }
    if (isExternal)
      function.eraseBody();
  }
}

/// Drops operands of ops that take any number of them.
void dropOperands(ModuleOp module, Part &part) {
  forEachOp(module, [&](Operation *op) {
    if (isTerminator(op) || isa<CallOpInterface>(op) || hasOperandsAsArguments(op))
      return;
    SmallVector<Value> all(op->getOperands());
    BitVector taken = takeSome(all.size(), part, [&](unsigned i) {
      op->eraseOperand(i);
      bool fits = part.allows(op);
      op->setOperands(all);
      return fits;
    });
    op->eraseOperands(taken);
    if (!part.allows(op))
      op->setOperands(all);
  });
}

//===- Attributes ---------------------------------------------------------===//

/// The type of a function, if the attribute holds one.
FunctionType getFunctionType(NamedAttribute attribute) {
  auto type = dyn_cast<TypeAttr>(attribute.getValue());
  return type ? dyn_cast<FunctionType>(type.getValue()) : FunctionType();
}

/// Calls visit with each attribute of each op.
template <typename Fn> void forEachAttribute(ModuleOp module, Fn &&visit) {
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (NamedAttribute attribute : op->getAttrDictionary())
      visit(op, attribute);
  });
}

void dropDiscardable(ModuleOp module, Part &part) {
  forEachAttribute(module, [&](Operation *op, NamedAttribute attribute) {
    StringAttr name = attribute.getName();
    if (!op->getInherentAttr(name) && part.takes())
      op->removeDiscardableAttr(name);
  });
}

void dropInherent(ModuleOp module, Part &part) {
  forEachAttribute(module, [&](Operation *op, NamedAttribute attribute) {
    StringAttr name = attribute.getName();
    // Names and types of functions are read before a verifier looks at them.
    if (!op->getInherentAttr(name) || name == SymbolTable::getSymbolAttrName() ||
        getFunctionType(attribute))
      return;
    op->removeAttr(name);
    if (!part.allows(op) || !part.takes())
      op->setAttr(name, attribute.getValue());
  });
}

/// Drops attributes of arguments and results of functions.
void dropValueAttributes(ModuleOp module, Part &part) {
  forEachOp(module, [&](Operation *op) {
    auto function = dyn_cast<FunctionOpInterface>(op);
    if (!function)
      return;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      for (NamedAttribute attribute : llvm::to_vector(function.getArgAttrs(i)))
        if (part.takes())
          function.removeArgAttr(i, attribute.getName());
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      for (NamedAttribute attribute : llvm::to_vector(function.getResultAttrs(i)))
        if (part.takes())
          function.removeResultAttr(i, attribute.getName());
  });
}

/// Drops entries of lists and dictionaries.
void dropEntries(ModuleOp module, Part &part) {
  forEachAttribute(module, [&](Operation *op, NamedAttribute attribute) {
    MLIRContext *context = module.getContext();
    Attribute left;
    if (auto list = dyn_cast<ArrayAttr>(attribute.getValue())) {
      SmallVector<Attribute> entries;
      llvm::copy_if(list, std::back_inserter(entries), [&](Attribute) { return !part.takes(); });
      left = ArrayAttr::get(context, entries);
    } else if (auto dictionary = dyn_cast<DictionaryAttr>(attribute.getValue())) {
      SmallVector<NamedAttribute> entries;
      llvm::copy_if(dictionary, std::back_inserter(entries),
                    [&](NamedAttribute) { return !part.takes(); });
      left = DictionaryAttr::get(context, entries);
    }
    if (!left || left == attribute.getValue())
      return;
    op->setAttr(attribute.getName(), left);
    if (!part.allows(op))
      op->setAttr(attribute.getName(), attribute.getValue());
  });
}

/// Sets the elements of constants to zero.
void clearElements(ModuleOp module, Part &part) {
  forEachAttribute(module, [&](Operation *op, NamedAttribute attribute) {
    auto elements = dyn_cast<ElementsAttr>(attribute.getValue());
    if (!elements || isa<SplatElementsAttr>(elements) ||
        !isa<DenseElementsAttr, DenseResourceElementsAttr>(elements) || !part.takes())
      return;
    if (Attribute zero = Builder(op).getZeroAttr(elements.getShapedType()))
      op->setAttr(attribute.getName(), zero);
  });
}

/// The entries of a list or dictionary and of those in it.
unsigned countEntries(Attribute attribute) {
  unsigned count = 0;
  if (auto list = dyn_cast<ArrayAttr>(attribute))
    for (Attribute entry : list)
      count += 1 + countEntries(entry);
  else if (auto dictionary = dyn_cast<DictionaryAttr>(attribute))
    for (NamedAttribute entry : dictionary)
      count += 1 + countEntries(entry.getValue());
  return count;
}

} // namespace

ArrayRef<Reduction> shale::getReductions() {
  static constexpr Reduction reductions[] = {
      {"clear constants", clearElements},
      {"drop symbols", dropSymbols},
      {"drop function bodies", dropBodies},
      {"return earlier", returnEarlier},
      {"drop ops", dropOps},
      {"drop results", dropResults},
      {"replace by constants", replaceByConstants},
      {"inline regions", inlineRegions},
      {"drop arguments", dropArguments},
      {"drop value attributes", dropValueAttributes},
      {"drop discardable attributes", dropDiscardable},
      {"drop other attributes", dropInherent},
      {"drop list entries", dropEntries},
      {"drop operands", dropOperands},
  };
  return reductions;
}

Size shale::measure(ModuleOp module) {
  Size size;
  module.walk([&](Operation *op) {
    if (op != module)
      ++(isConstant(op) ? size.constants : size.ops);
    size.operands += op->getNumOperands();
    for (NamedAttribute attribute : op->getAttrDictionary()) {
      size.attributes += 1 + countEntries(attribute.getValue());
      if (FunctionType type = getFunctionType(attribute))
        size.values += type.getNumResults();
    }
    if (op->getNumRegions())
      size.values += op->getNumResults();
    for (Region &region : op->getRegions())
      for (Block &block : region)
        size.values += block.getNumArguments();
  });
  return size;
}
