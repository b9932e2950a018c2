//===- Evaluators.h - The families of evaluators --------------------------===//
#ifndef SHALE_INTERPRETER_EVALUATORS_H
#define SHALE_INTERPRETER_EVALUATORS_H

namespace shale::interp {

class Registry;

void registerElementwise(Registry &registry);
void registerData(Registry &registry);
void registerMatmul(Registry &registry);
void registerQuantize(Registry &registry);
void registerEpilogue(Registry &registry);
void registerNorm(Registry &registry);
void registerAttention(Registry &registry);
void registerSdpa(Registry &registry);
void registerEmbedding(Registry &registry);
void registerSort(Registry &registry);
void registerLoss(Registry &registry);
void registerOptimizer(Registry &registry);
void registerSegments(Registry &registry);
void registerRandom(Registry &registry);
void registerCluster(Registry &registry);
void registerCollectives(Registry &registry);
void registerUnits(Registry &registry);
void registerFunctions(Registry &registry);

} // namespace shale::interp

#endif // SHALE_INTERPRETER_EVALUATORS_H
