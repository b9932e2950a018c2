//===- RTInterfaces.td - Interface of started collectives -----------------===//
#ifndef SHALE_RT_INTERFACES_TD
#define SHALE_RT_INTERFACES_TD

include "mlir/IR/OpBase.td"

def RT_CollectiveInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::shale::rt";
  let description = [{
    A collective of a planned program. Starting it gives a token. The element
    count and the bytes sent per rank follow from its kind and its two buffers.
  }];
  let methods = [
    InterfaceMethod<"Returns the kind of exchange.", "::shale::CollectiveKind", "getCollectiveKind", (ins)>,
    InterfaceMethod<"Returns the buffer that is sent.", "::mlir::TypedValue<::mlir::MemRefType>", "getSend", (ins)>,
    InterfaceMethod<"Returns the buffer that is received.", "::mlir::TypedValue<::mlir::MemRefType>", "getRecv", (ins)>,
    InterfaceMethod<"Returns its row in the program's table of collectives.", "int64_t", "getSite", (ins)>,
    InterfaceMethod<"Returns the mesh axis along which ranks take part.", "::mlir::StringAttr", "getAxisAttr", (ins)>,
    InterfaceMethod<"Returns the name of the unit or value that is moved.", "::llvm::StringRef", "getName", (ins)>,
    InterfaceMethod<[{
      Returns the element count that is passed to the runtime call: the elements
      of the send buffer; for a reduce-scatter those of the receive buffer, for an
      all-to-all those of one rank's piece.
    }],
    "int64_t", "getCount", (ins), "", [{
      ::shale::CollectiveKind kind = $_op.getCollectiveKind();
      int64_t elements = (scatters(kind) ? $_op.getRecv() : $_op.getSend()).getType().getNumElements();
      bool inPieces = sendsAll(kind) && receivesAll(kind);
      return inPieces ? elements / $_op.getSend().getType().getDimSize(0) : elements;
    }]>,
    InterfaceMethod<[{
      Returns the bytes that one rank sends when `ranks` take part and each piece
      goes straight to its receiver (sentElements()).
    }],
    "int64_t", "getSentBytes", (ins "int64_t":$ranks), "", [{
      return sentElements($_op.getCollectiveKind(), $_op.getCount(), ranks) *
             ::shale::nn::elementBytes($_op.getSend().getType().getElementType());
    }]>
  ];
}

#endif // SHALE_RT_INTERFACES_TD
