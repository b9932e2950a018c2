//===- Merge.cpp - Appends a file's training algorithm to its graph -------===//
#include "include/shale/Runtime.h"
#include "lib/Frontend/ONNX/ImportContext.h"
#include "lib/Frontend/ONNX/Scope.h"
#include "lib/Frontend/ONNX/Training/FileTraining.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Returns the first name that `algorithm` defines and `graph` has already; empty if there is none.
static std::string clash(const GraphProto &graph, const GraphProto &algorithm) {
  llvm::StringSet<> names;
  forEachDefined(graph, [&](StringRef name) { names.insert(name); });
  std::string first;
  forEachDefined(algorithm, [&](StringRef name) {
    if (first.empty() && names.contains(name))
      first = name.str();
  });
  return first;
}

LogicalResult onnx::mergeAlgorithm(ImportContext &context) {
  ModelProto &proto = context.model.mutableProto();
  if (proto.training_info_size() > 1)
    return context.error("training_info has " + Twine(proto.training_info_size()) +
                         " steps, of which each update reads the results of the ones before: "
                         "Shale trains files with one");
  const TrainingInfoProto &info = proto.training_info(0);
  if (info.algorithm().node_size() == 0)
    return context.error("training_info has no algorithm, so that no step changes anything");
  GraphProto &graph = *proto.mutable_graph();
  if (std::string name = clash(graph, info.algorithm()); !name.empty())
    return context.error("training_info: the algorithm defines '" + displayName(name) +
                         "', which the graph has already");
  const GraphProto &algorithm = info.algorithm();
  graph.mutable_input()->MergeFrom(algorithm.input());
  graph.mutable_initializer()->MergeFrom(algorithm.initializer());
  graph.mutable_node()->MergeFrom(algorithm.node());
  graph.mutable_output()->MergeFrom(algorithm.output());
  graph.mutable_value_info()->MergeFrom(algorithm.value_info());
  graph.mutable_sparse_initializer()->MergeFrom(algorithm.sparse_initializer());
  return success();
}
