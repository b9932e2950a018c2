//===- Attribute.h - Attributes of nodes as a record has them -------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_ATTRIBUTE_H
#define SHALE_FRONTEND_ONNX_RECORD_ATTRIBUTE_H

#include "lib/Frontend/ONNX/Record/Argument.h"

namespace shale::onnx {

/// Returns an attribute as a record would have it; none if it is a tensor or a graph.
std::optional<Argument> attributeOf(const AttributeProto &attribute);

/// Returns the value of an attribute that a node does not have, which is also the one that it must
/// have where a form does not name it. Source: the ONNX operators' definitions.
std::optional<Argument> missingAttribute(llvm::StringRef op, llvm::StringRef name);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_ATTRIBUTE_H
