//===- Checkpoint.cpp - ONNX Runtime's training checkpoint ----------------===//
//
// Field numbers are those of ONNX Runtime's public schema ort_training_checkpoint.fbs, version 2.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Artifacts/Checkpoint.h"
#include "lib/Frontend/ONNX/Artifacts/FlatBuffer.h"
#include "llvm/ADT/Twine.h"

using namespace shale::onnx;
using llvm::Expected;
using llvm::StringRef;

namespace {

constexpr int32_t kVersion = 2;
constexpr uint64_t kMostDims = 64;

namespace checkpoint {
enum { Version, Module, Groups };
} // namespace checkpoint
namespace module {
enum { Trained, Frozen, IsNominal, HasExternalData };
} // namespace module
namespace group {
enum { Name, Step, LearningRate, States };
} // namespace group
namespace state {
enum { Parameter, Moments };
} // namespace state
namespace tensor {
enum { Name, Doc, Dims, DataType, RawData, Strings, ExternalOffset };
} // namespace tensor

CheckpointTensor readTensor(const FlatTable &table, FlatBuffer &buffer) {
  CheckpointTensor result;
  result.name = table.string(tensor::Name);
  result.dims = table.integers(tensor::Dims, kMostDims);
  result.dataType = table.number<int32_t>(tensor::DataType, 0);
  std::optional<FlatTable::Span> data = table.span(tensor::RawData);
  int64_t external = table.number<int64_t>(tensor::ExternalOffset, -1);
  if (bool(data) == (external >= 0) && buffer.error.empty())
    buffer.error = ("tensor '" + result.name.take_front(200) + "' has " +
                    (data ? "data inside and outside the file" : "no data"))
                       .str();
  result.isExternal = external >= 0;
  result.offset = data ? int64_t(data->offset) : external;
  result.length = data ? int64_t(data->length) : -1;
  return result;
}

std::vector<CheckpointTensor> readTensors(const FlatTable &table, unsigned field,
                                          FlatBuffer &buffer) {
  std::vector<CheckpointTensor> tensors;
  for (const FlatTable &one : table.tables(field))
    tensors.push_back(readTensor(one, buffer));
  return tensors;
}

CheckpointGroup readGroup(const FlatTable &table, FlatBuffer &buffer) {
  CheckpointGroup result;
  result.step = table.number<int64_t>(group::Step, 0);
  result.learningRate = table.number<float>(group::LearningRate, 0);
  for (const FlatTable &one : table.tables(group::States)) {
    StringRef parameter = one.string(state::Parameter);
    for (CheckpointTensor &moment : readTensors(one, state::Moments, buffer)) {
      moment.name = parameter;
      result.moments.push_back(std::move(moment));
    }
  }
  return result;
}

} // namespace

Expected<Checkpoint> shale::onnx::readCheckpoint(StringRef bytes) {
  FlatBuffer buffer(bytes);
  FlatTable root(buffer, "ODTC");
  auto version = root.number<int32_t>(checkpoint::Version, 0);
  if (buffer.error.empty() && version != kVersion)
    return llvm::createStringError("it has version " + llvm::Twine(version) + ", Shale reads " +
                                   llvm::Twine(kVersion) +
                                   ", which ONNX Runtime 1.17 to 1.19 writes");
  std::optional<FlatTable> state = root.table(checkpoint::Module);
  if (buffer.error.empty() && !state)
    return llvm::createStringError("it has no parameters");
  Checkpoint result;
  if (state && state->number<uint8_t>(module::IsNominal, 0))
    return llvm::createStringError("it has the names of parameters without their values: save it "
                                   "without nominal_checkpoint");
  if (state) {
    result.trained = readTensors(*state, module::Trained, buffer);
    result.frozen = readTensors(*state, module::Frozen, buffer);
  }
  for (const FlatTable &one : root.tables(checkpoint::Groups))
    result.groups.push_back(readGroup(one, buffer));
  if (!buffer.error.empty())
    return llvm::createStringError(buffer.error);
  return result;
}
