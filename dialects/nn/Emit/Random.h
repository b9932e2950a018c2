//===- Random.h - Philox in arith ------------------------------------------===//
#ifndef SHALE_NN_EMIT_RANDOM_H
#define SHALE_NN_EMIT_RANDOM_H

#include "dialects/interfaces/ElementEmitter.h"
#include "dialects/nn/Philox.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace shale::nn {

/// Builds arithmetic on 32-bit words, scalars or vectors.
struct RandomWords {
  mlir::OpBuilder &b;
  mlir::Location loc;

  mlir::Value constant(uint32_t value) {
    return mlir::arith::ConstantOp::create(
        b, loc, b.getIntegerAttr(b.getI32Type(), llvm::APInt(32, value)));
  }
  void match(mlir::Value &x, mlir::Value &y) {
    mlir::Value both[] = {x, y};
    shale::matchLanes(b, loc, both);
    x = both[0], y = both[1];
  }
  mlir::Value exclusive(mlir::Value x, mlir::Value y) {
    match(x, y);
    return mlir::arith::XOrIOp::create(b, loc, x, y);
  }
  mlir::Value sum(mlir::Value x, mlir::Value y) {
    match(x, y);
    return mlir::arith::AddIOp::create(b, loc, x, y);
  }
  /// Low and high word of a product.
  std::pair<mlir::Value, mlir::Value> product(mlir::Value x, mlir::Value y) {
    match(x, y);
    auto op = mlir::arith::MulUIExtendedOp::create(b, loc, x, y);
    return {op.getLow(), op.getHigh()};
  }
  /// Low and high word of an i64.
  std::pair<mlir::Value, mlir::Value> split(mlir::Value wide) {
    mlir::Type half = b.getI32Type();
    if (auto type = llvm::dyn_cast<mlir::VectorType>(wide.getType()))
      half = type.clone(half);
    mlir::Value high =
        mlir::arith::ShRUIOp::create(b, loc, wide, constantLike(b, loc, wide.getType(), 32));
    return {mlir::arith::TruncIOp::create(b, loc, half, wide),
            mlir::arith::TruncIOp::create(b, loc, half, high)};
  }
  /// Word 0 of philox() in dialects/nn/Philox.h.
  mlir::Value philox(std::array<mlir::Value, 4> x, mlir::Value key0, mlir::Value key1) {
    return philoxWords(x, key0, key1)[0];
  }
  /// The words of philox() in dialects/nn/Philox.h.
  std::array<mlir::Value, 4> philoxWords(std::array<mlir::Value, 4> x, mlir::Value key0,
                                         mlir::Value key1) {
    mlir::Value m0 = constant(kPhiloxMultipliers[0]), m1 = constant(kPhiloxMultipliers[1]);
    mlir::Value w0 = constant(kPhiloxWeyl[0]), w1 = constant(kPhiloxWeyl[1]);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      auto [low0, high0] = product(x[0], m0);
      auto [low1, high1] = product(x[2], m1);
      x = {exclusive(exclusive(high1, x[1]), key0), low1, exclusive(exclusive(high0, x[3]), key1),
           low0};
      key0 = sum(key0, w0);
      key1 = sum(key1, w1);
    }
    return x;
  }
};

} // namespace shale::nn

#endif // SHALE_NN_EMIT_RANDOM_H
