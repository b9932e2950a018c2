//===- QuantizeGathers.cpp - Gathers 8-bit integers -----------------------===//
#include "dialects/dist/Dist.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/fusion/Passes.h"
#include "passes/fusion/QuantizedBlocks.h"

namespace shale {
#define GEN_PASS_DEF_QUANTIZEGATHERSPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

static void quantizeGather(dist::UnitGatherOp gather) {
  OpBuilder builder(gather);
  dist::Encoding encoding = *gather.getEncoding();
  Value shard = gather.getInput(), whole = gather.getResult();
  auto type = cast<RankedTensorType>(whole.getType());
  Type word = builder.getI32Type();
  auto typeOfWords = [&](Value floats) {
    return RankedTensorType::get({wordsOf(nn::elements(floats), encoding)}, word);
  };
  Value sent = buildKernel(builder, gather, shard, typeOfWords(shard),
                           [&](nn::Composer &c, ValueRange floats) {
                             return quantizeBlocks(c, floats[0], encoding);
                           })
                   .getResult(0);
  gather.getInputMutable().assign(sent);
  whole.setType(typeOfWords(whole));
  builder.setInsertionPointAfter(gather);
  Value floats = buildKernel(builder, gather, whole, type, [&](nn::Composer &c, ValueRange words) {
                   return dequantizeBlocks(c, words[0], type.getElementType(), encoding);
                 }).getResult(0);
  whole.replaceAllUsesExcept(floats, floats.getDefiningOp());
}

namespace {
struct QuantizeGathersPass : shale::impl::QuantizeGathersPassBase<QuantizeGathersPass> {
  using QuantizeGathersPassBase::QuantizeGathersPassBase;
  void runOnOperation() override {
    SmallVector<dist::UnitGatherOp> gathers;
    getOperation().walk([&](dist::UnitGatherOp gather) {
      if (gather.getEncodingAttr() && !gather.gathersWords())
        gathers.push_back(gather);
    });
    for (dist::UnitGatherOp gather : gathers)
      quantizeGather(gather);
  }
};
} // namespace
