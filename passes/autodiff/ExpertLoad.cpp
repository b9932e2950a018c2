//===- ExpertLoad.cpp - How rows are spread over experts ------------------===//
#include "passes/autodiff/ExpertLoad.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Ops/Reduce.h"
#include <cmath>

using namespace mlir;
using namespace shale;

void ExpertLoad::count(Block &body) {
  llvm::DenseSet<std::pair<Value, int64_t>> counted;
  llvm::StringMap<int> modules;
  OpBuilder::InsertionGuard guard(builder);
  for (auto matmul : llvm::to_vector(body.getOps<nn::ExpertMatmulOp>())) {
    Value experts = matmul.getExperts();
    int64_t count = nn::tensorOf(matmul.getRhs()).getDimSize(0);
    if (!nn::isInPhase(matmul, nn::Phase::Forward) || !counted.insert({experts, count}).second)
      continue;
    Location loc = matmul.getLoc();
    RankedTensorType table = nn::tensorOf(experts).clone({nn::elements(experts), count});
    builder.setInsertionPoint(matmul);
    auto wide =
        nn::BroadcastOp::create(builder, loc, table, experts, builder.getDenseI64ArrayAttr({0}));
    auto number = nn::IotaOp::create(builder, loc, table, 1);
    auto isOf = nn::CompareOp::create(builder, loc, table.clone(builder.getI1Type()),
                                      nn::Predicate::EQ, wide, number);
    auto one = nn::CastOp::create(builder, loc, table.clone(builder.getF32Type()), isOf);
    auto counts =
        nn::ReduceOp::create(builder, loc, RankedTensorType::get({count}, builder.getF32Type()),
                             nn::ReduceKind::Sum, one, ArrayRef<int64_t>{0});
    for (Operation *op : {wide.getOperation(), number.getOperation(), isOf.getOperation(),
                          one.getOperation(), counts.getOperation()})
      nn::copyPhaseAndScope(matmul, op);
    auto scope = matmul->getAttrOfType<StringAttr>(nn::kScopeAttr);
    std::string module = scope && !scope.empty() ? scope.str() : "model";
    if (int number = modules[module]++)
      module += "#" + std::to_string(number + 1);
    layers.push_back({module, counts});
  }
}

SmallVector<std::pair<std::string, Value>> ExpertLoad::build(Location loc) {
  SmallVector<std::pair<std::string, Value>> metrics;
  if (layers.empty())
    return metrics;
  auto list = [&](ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getF32Type());
  };
  auto number = [&](double value, ArrayRef<int64_t> shape = {}) {
    return nn::splat(builder, loc, list(shape), value);
  };
  auto reduce = [&](nn::ReduceKind kind, Value value) -> Value {
    return nn::ReduceOp::create(builder, loc, list({}), kind, value, ArrayRef<int64_t>{0});
  };
  auto largest = [&](Value a, Value b) -> Value {
    return nn::MaxOp::create(builder, loc, a.getType(), a, b);
  };
  SmallVector<Value> parts;
  int64_t total = 0;
  for (const Layer &layer : layers) {
    parts.push_back(layer.counts);
    total += nn::elements(layer.counts);
  }
  Value all =
      parts.size() == 1 ? parts.front() : nn::ConcatOp::create(builder, loc, list(total), parts, 0);
  // The maximum needs sums over ranks, so these are made of all layers at once.
  all = largest(all, number(0, total));
  int64_t begin = 0;
  for (const Layer &layer : layers) {
    int64_t count = nn::elements(layer.counts), end = begin + count;
    RankedTensorType type = list(count);
    Value counts = nn::SliceOp::create(builder, loc, type, all, ArrayRef<int64_t>{begin},
                                       ArrayRef<int64_t>{end}, ArrayRef<int64_t>{1});
    begin = end;
    Value rows = largest(reduce(nn::ReduceKind::Sum, counts), number(1));
    Value wide =
        nn::BroadcastOp::create(builder, loc, type, rows, builder.getDenseI64ArrayAttr({}));
    Value shares = nn::DivOp::create(builder, loc, type, counts, wide);
    // An expert without rows adds 0 * log(tiny).
    Value logs = nn::LogOp::create(builder, loc, type, largest(shares, number(1e-30, count)));
    Value sum = reduce(nn::ReduceKind::Sum, nn::MulOp::create(builder, loc, type, shares, logs));
    double most = count > 1 ? std::log(double(count)) : 1;
    std::string name = "experts/" + layer.module + "/";
    metrics.emplace_back(name + "largest", reduce(nn::ReduceKind::Max, shares));
    metrics.emplace_back(name + "smallest", reduce(nn::ReduceKind::Min, shares));
    metrics.emplace_back(name + "entropy",
                         nn::MulOp::create(builder, loc, sum.getType(), sum, number(-1 / most)));
  }
  return metrics;
}
