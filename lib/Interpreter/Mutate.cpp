//===- Mutate.cpp - Tests that deleted collectives are detected -----------===//
#include "lib/Interpreter/Mutate.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/rt/RT.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

// Views and the buffers that they lie in are aligned alike.
static_assert(shale::nn::kViewAlignment == shale::rt::kAlignment);

namespace shale::interp {

namespace {

/// Returns a value of the collective's result type that a rank can compute from its
/// own operand alone: its slice, or its piece repeated.
Value localValue(OpBuilder &builder, Location loc, Value value, RankedTensorType wanted,
                 StringRef axis) {
  auto type = [&] { return cast<RankedTensorType>(value.getType()); };
  auto withDim = [&](int64_t dim, int64_t size) {
    SmallVector<int64_t> shape(type().getShape());
    shape[dim] = size;
    return RankedTensorType::get(shape, type().getElementType());
  };
  for (int64_t dim = 0; dim < wanted.getRank(); ++dim)
    if (wanted.getDimSize(dim) < type().getDimSize(dim))
      value = dist::SliceOp::create(builder, loc, withDim(dim, wanted.getDimSize(dim)), value,
                                    builder.getStringAttr(axis), builder.getI64IntegerAttr(dim));
  for (int64_t dim = 0; dim < wanted.getRank(); ++dim)
    if (wanted.getDimSize(dim) > type().getDimSize(dim)) {
      SmallVector<Value> copies(wanted.getDimSize(dim) / type().getDimSize(dim), value);
      value = nn::ConcatOp::create(builder, loc, withDim(dim, wanted.getDimSize(dim)), copies,
                                   builder.getI64IntegerAttr(dim));
    }
  if (type() != wanted)
    value = nn::CastOp::create(builder, loc, wanted, value);
  return value;
}

/// Deletes a collective of a partitioned or scheduled program.
void dropCollective(CollectiveOpInterface collective) {
  Operation *op = collective;
  auto start = dyn_cast<dist::StartOp>(op->getParentOp());
  Operation *place = start ? start.getWait().getOperation() : op;
  Value input = start ? start.getInput() : op->getOperand(0);
  OpBuilder builder(place);
  Value result = place->getResult(0);
  result.replaceAllUsesWith(localValue(builder, op->getLoc(), input,
                                       cast<RankedTensorType>(result.getType()),
                                       collective.getCollectiveAxis()));
  place->erase();
  if (start)
    start->erase();
}

/// Deletes the start and the wait of a copy.
void dropTransfer(Operation *start) {
  for (Operation *user : llvm::make_early_inc_range(start->getUsers()))
    user->erase();
  start->erase();
}

/// Deletes a collective of a planned program: replaces its start and wait by copies.
void dropPlanned(rt::CollectiveOpInterface start) {
  OpBuilder builder(start);
  Location loc = start->getLoc();
  auto flat = [&](Value buffer, int64_t offset, int64_t count) -> Value {
    auto element = cast<MemRefType>(buffer.getType()).getElementType();
    int64_t bytes = nn::elementBytes(element) * offset;
    return rt::ViewOp::create(builder, loc, MemRefType::get({count}, element), buffer, bytes);
  };
  Value send = start.getSend(), recv = start.getRecv();
  int64_t sent = start.getSend().getType().getNumElements(),
          received = start.getRecv().getType().getNumElements();
  CollectiveKind kind = start.getCollectiveKind();
  if (gathers(kind)) {
    for (int64_t at = 0; at < received; at += sent)
      rt::CopyOp::create(builder, loc, flat(send, 0, sent), flat(recv, at, sent));
  } else if (scatters(kind)) {
    auto slice = MemRefType::get({received}, start.getSend().getType().getElementType());
    Value own = rt::ShardOp::create(builder, loc, slice, flat(send, 0, sent), start.getAxisAttr());
    rt::CopyOp::create(builder, loc, own, flat(recv, 0, received));
  } else {
    rt::CopyOp::create(builder, loc, flat(send, 0, sent), flat(recv, 0, received));
  }
  for (Operation *user : llvm::make_early_inc_range(start->getUsers()))
    user->erase();
  start->erase();
}

std::string describe(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  op->print(os, OpPrintingFlags().skipRegions().useLocalScope());
  return text.substr(0, 120);
}

class Mutation {
public:
  Mutation(ModuleOp module, const CompareOptions &options, raw_ostream &report)
      : module(module), options(options), report(report), inputs(options.seed) {
    inputs.tensors = options.inputs;
  }

  LogicalResult run() {
    for (const std::string &name : getAdapter(module).functions(module)) {
      auto results = runFunction(module, name, options, inputs);
      if (failed(results))
        return failure();
      original[name] = std::move(*results);
    }
    SmallVector<Operation *> collectives, copies, waits;
    module.walk([&](Operation *op) {
      if (isa<CollectiveOpInterface, rt::CollectiveOpInterface>(op))
        collectives.push_back(op);
      else if (isa<rt::TransferOp>(op))
        copies.push_back(op);
      else if (isa<rt::WaitOp>(op))
        waits.push_back(op);
    });
    bool noticed = tryEach("collectives", collectives);
    noticed &= tryEach("copies", copies);
    noticed &= tryEach("waits", waits);
    return success(noticed && !(collectives.empty() && copies.empty()));
  }

private:
  /// What detects that an op is deleted.
  enum Outcome { Nothing, Results, Interpreter, Verifier };

  bool tryEach(StringRef what, ArrayRef<Operation *> ops) {
    if (ops.empty())
      return true;
    int64_t counts[4] = {0, 0, 0, 0};
    for (Operation *op : ops)
      ++counts[tryWithout(op)];
    report << ops.size() << " " << what << " deleted, one at a time: " << counts[Results]
           << " times other results, " << counts[Interpreter] << " refused when run, "
           << counts[Verifier] << " refused by verifiers, " << counts[Nothing] << " unnoticed\n";
    return counts[Nothing] == 0;
  }

  Outcome tryWithout(Operation *op) {
    IRMapping mapping;
    OwningOpRef<ModuleOp> mutant(cast<ModuleOp>(module->clone(mapping)));
    Operation *copy = mapping.lookup(op);
    if (auto collective = dyn_cast<CollectiveOpInterface>(copy))
      dropCollective(collective);
    else if (auto start = dyn_cast<rt::CollectiveOpInterface>(copy))
      dropPlanned(start);
    else if (isa<rt::TransferOp>(copy))
      dropTransfer(copy);
    else
      copy->erase();
    // Errors are expected: do not print them.
    ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
    if (failed(verify(*mutant)))
      return Verifier;
    std::string name = functionOf(op);
    auto results = runFunction(*mutant, name, options, inputs);
    if (failed(results))
      return Interpreter;
    if (failed(compareResults("@" + name, original[name], *results, options, llvm::nulls(),
                              /*common=*/false)))
      return Results;
    report << "@" << name << ": no result changes without " << describe(op) << "\n";
    return Nothing;
  }

  static std::string functionOf(Operation *op) {
    while (!isa<ModuleOp>(op->getParentOp()))
      op = op->getParentOp();
    return SymbolTable::getSymbolName(op).str();
  }

  ModuleOp module;
  const CompareOptions &options;
  raw_ostream &report;
  LogicalValues inputs;
  std::map<std::string, NamedTensors> original;
};

} // namespace

LogicalResult mutateModule(ModuleOp module, const CompareOptions &options, raw_ostream &report) {
  return Mutation(module, options, report).run();
}

} // namespace shale::interp
