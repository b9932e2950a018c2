//===- RtProgram.cpp - Runs planned programs on named logical values ------===//
#include "dialects/dist/Dist.h"
#include "lib/Interpreter/Program.h"
#include "lib/Interpreter/RtMachine.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;

namespace shale::interp {

namespace {
/// Runs a planned function through the signature of the tensor function that it was
/// lowered from, so that values are packed in the same way.
class RtAdapter : public ProgramAdapter {
public:
  bool accepts(ModuleOp module) const override { return !module.getOps<rt::FuncOp>().empty(); }

  int64_t rankCount(ModuleOp module, int64_t requested) const override {
    dist::MeshOp mesh = dist::getMesh(module);
    return mesh ? mesh.getRankCount() : ProgramAdapter::rankCount(module, requested);
  }

  std::vector<std::string> functions(ModuleOp module) const override {
    std::vector<std::string> names;
    for (auto function : module.getOps<rt::FuncOp>())
      names.push_back(function.getSymName().str());
    return names;
  }

  LogicalResult run(ModuleOp module, StringRef name, Interpreter &interpreter,
                    LogicalValues &inputs, LogicalValues &results) const override;
};
} // namespace

/// Builds a function with the signature of the planned function, without ops in its
/// body. The caller must erase it.
static func::FuncOp makeSignature(rt::FuncOp function) {
  OpBuilder builder(function);
  // A planned module may have been read without any func.func, so the dialect may not be loaded.
  function->getContext()->getOrLoadDialect<func::FuncDialect>();
  auto type = cast<FunctionType>(*function.getSignature());
  auto signature = func::FuncOp::create(builder, function.getLoc(),
                                        (function.getSymName() + "@signature").str(), type);
  if (ArrayAttr attrs = function.getArgAttrsAttr())
    signature.setArgAttrsAttr(attrs);
  if (ArrayAttr attrs = function.getResAttrsAttr())
    signature.setResAttrsAttr(attrs);
  signature.addEntryBlock();
  return signature;
}

LogicalResult RtAdapter::run(ModuleOp module, StringRef name, Interpreter &interpreter,
                             LogicalValues &inputs, LogicalValues &results) const {
  auto function = module.lookupSymbol<rt::FuncOp>(name);
  if (!function || !function.getSignature())
    return module.emitError("there is no planned function @") << name << " with a signature";
  func::FuncOp signature = makeSignature(function);
  llvm::scope_exit erase([&] { signature.erase(); });
  Block *scratch = signature.addBlock();
  int64_t ranks = interpreter.options.ranks, input = 0, hyper = 0, metric = 0;
  RankMemory memory(function, interpreter.options);
  RtMachine machine(function, memory, interpreter, scratch);
  if (failed(memory.allocate()) || failed(machine.prepare()))
    return failure();
  for (unsigned i = 0; i < signature.getNumArguments(); ++i) {
    auto packed = packArgument(signature, i, ranks, inputs);
    if (failed(packed))
      return failure();
    auto state = signature.getArgAttrOfType<FlatSymbolRefAttr>(i, nn::kStateAttr);
    auto role = signature.getArgAttrOfType<nn::RoleAttr>(i, nn::kRoleAttr);
    bool isHyper = !state && role && role.getValue() == nn::Role::Hyper;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      if (state)
        memory.setState(rank, state.getValue(), (*packed)[rank]);
      else if (isHyper)
        memory.setHyper(rank, hyper, (*packed)[rank]);
      else
        memory.setInput(rank, input, (*packed)[rank]);
    }
    if (!state)
      ++(isHyper ? hyper : input);
  }
  if (failed(machine.run()))
    return failure();
  for (unsigned i = 0; i < signature.getNumResults(); ++i) {
    auto state = signature.getResultAttrOfType<FlatSymbolRefAttr>(i, nn::kStateAttr);
    auto type = cast<RankedTensorType>(signature.getResultTypes()[i]);
    Element element = *elementOf(type.getElementType());
    std::vector<Tensor> values;
    for (int64_t rank = 0; rank < ranks; ++rank)
      values.push_back(state ? memory.getState(rank, state.getValue(), element, type.getShape())
                             : Tensor::scalar(element, memory.getMetric(rank, metric)));
    metric += !state;
    if (failed(unpackResult(signature, i, values, results)))
      return failure();
  }
  return success();
}

std::unique_ptr<ProgramAdapter> makeRtAdapter() { return std::make_unique<RtAdapter>(); }

} // namespace shale::interp
