//===- Words.h - The words of PyTorch's exporter --------------------------===//
//
// Everything that the importer compares with text of PyTorch's exporter (torch.onnx.export with
// dynamo=True, and onnxscript's optimizer) is in this file and Words.cpp: keys of metadata, targets
// of operations, and kinds of operations. A version of the exporter that uses another word is a
// line here. The forms in which it writes operations are in ExporterForms.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_WORDS_H
#define SHALE_FRONTEND_ONNX_RECORD_WORDS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace shale::onnx::words {

// Keys of metadata.
inline constexpr llvm::StringLiteral
    // A property of the graph: the text of an ExportGraphSignature. torch 2.9 to 2.15.
    kSignature = "pkg.torch.export.ExportedProgram.graph_signature",
    // A property of a node: the text of the torch.fx.Node that it was made from. torch 2.9 to 2.15.
    kFxNode = "pkg.torch.onnx.fx_node",
    // A property of a node: the stack of Python, each frame with its line. torch 2.9 to 2.15.
    kStackTrace = "pkg.torch.onnx.stack_trace",
    // A property of a node: the modules around it, and their classes. torch 2.9 to 2.15.
    kNameScopes = "pkg.torch.onnx.name_scopes", kClasses = "pkg.torch.onnx.class_hierarchy",
    // A property of an output: its name in the traced program. torch 2.9 to 2.15.
    kOriginalName = "pkg.torch.onnx.original_node_name",
    // A property of a value: the names that the optimizer computed it from. onnxscript 0.5 to 0.7.
    kFoldedFrom = "pkg.onnxscript.optimizer.folded_from",
    // A property of the graph: the module in which Shale's export.py wrapped the user's.
    kWrapper = "shale.wrapper",
    // A property of the graph: the parameters that have requires_grad=False. Each line has one
    // parameter, and tabs separate its names in the user's module.
    kFrozen = "shale.frozen",
    // A property of the graph: the buffers that a traced step changes. Each line has a buffer's
    // name in the user's module, a tab, and the name of the output that is the buffer's new value.
    kNextBuffers = "shale.buffers",
    // A property of the graph: "given" if the user gave the batch of the export. Then the data file
    // has the labels, if the graph does not show how they follow from the tokens.
    kBatch = "shale.batch", kGiven = "given",
    // A property of a node: "loss" if its result is the gradient of the loss with respect to
    // itself. The backward pass of a traced step begins with it.
    kSeed = "shale.seed",
    // A property of the graph: "autocast" if the module does not use no_grad. Then each block under
    // a context manager is one of autocast.
    kBlocks = "shale.blocks", kAutocast = "autocast";

// Targets of operations. The overload follows: "aten.linear.default".
inline constexpr llvm::StringLiteral
    kAten = "aten.",
    kTorchOps = "torch.ops.", // before a target; not in the texts of all versions
    kBatchNormWithoutStatistics = "aten._native_batch_norm_legit.no_stats", kClamp = "aten.clamp",
    kCrossEntropy = "aten.cross_entropy_loss", kDetach = "aten.detach.default",
    kEinsum = "aten.einsum.default", kEmbedding = "aten.embedding",
    kEmbeddingRenorm = "aten.embedding_renorm", kInstanceNorm = "aten.instance_norm",
    kLinear = "aten.linear", kScaled = "aten.scaled", kMaxDim = "aten.max.dim",
    kMaximum = "aten.maximum.default", kMinDim = "aten.min.dim";

/// A value that code under a context manager computes has this file in its stack.
inline constexpr llvm::StringLiteral kGeneratedFile = "<eval_with_key>";
/// Begins the classes of modules that PyTorch ships.
inline constexpr llvm::StringLiteral kShippedModules = "torch.nn.modules.";
/// Begins the names of the nodes of a branch that the exporter took in place of torch.cond.
inline constexpr llvm::StringLiteral kBranch = "node_cond_";
/// The kind of one of several results.
inline constexpr llvm::StringLiteral kResult = "getitem";
/// Begins the name of a size, and of a value that the exporter names itself.
inline constexpr llvm::StringLiteral kSize = "sym_", kOwnValue = "val_";

/// What the importer knows of a kind of operation: "lerp" for "aten.lerp.Tensor" and for the value
/// "lerp_3".
enum class Trait {
  /// Only moves elements, repeats them, or converts their type.
  Moves,
  /// Only converts the type.
  Converts,
  /// Changes the order of elements by turning dimensions around.
  Turns,
  /// Has a result that is contiguous in memory whatever its operands are.
  MakesContiguous,
  /// Creates a tensor from literal numbers alone.
  Creates,
  /// Computes a mask: no gradient flows to it.
  Masks,
  /// Computes from floats.
  Computes,
  /// The optimizer removes it where it changes nothing: a sum of 0, a product of 1.
  IsRemoved,
  /// A sum: the optimizer removes it where the summand is at most 1e-8.
  IsSum,
  /// Has a derivative that is unbounded near an operand of 0.
  IsUnboundedAtZero,
  /// Has no form, and its nodes read its arguments unchanged, perhaps in another layout.
  ReadsAsItIs,
  /// The exporter writes it as an InstanceNormalization of ones and zeros, a product and a sum.
  IsGroupNorm,
  /// A batch normalization of which the record has whether it is in training.
  IsBatchNorm,
};

/// Whether a kind of operation has a trait.
bool is(llvm::StringRef kind, Trait trait);

/// Returns the place of the bias among the arguments of a kind of operation; -1 if it has none.
int biasPlaceOf(llvm::StringRef kind);

/// Returns the place of the dropout ratio among the arguments of a kind of attention; -1 for other
/// kinds.
int attentionDropoutPlaceOf(llvm::StringRef kind);

/// An argument of PyTorch's operations that the exporter's nodes do not have: they compute another
/// value, or send another gradient.
struct LeftOut {
  llvm::StringLiteral kind; // of the operation, with any overload
  size_t position;
  llvm::StringLiteral name;
  /// The only value with which the nodes are wrong; empty: any but None.
  llvm::StringLiteral value;
  llvm::StringLiteral remedy;
};
llvm::ArrayRef<LeftOut> leftOutArguments();

/// Returns the number of a data type in ONNX by PyTorch's name, "torch.float32"; 0 if it is not
/// known.
int dataTypeOf(llvm::StringRef name);

/// Returns the kind of a target: "lerp" for "aten.lerp.Tensor".
llvm::StringRef kindOf(llvm::StringRef target);

} // namespace shale::onnx::words

#endif // SHALE_FRONTEND_ONNX_RECORD_WORDS_H
