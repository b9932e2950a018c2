//===- RTInterfaces.td - What started collectives have in common ----------===//
#ifndef SHALE_RT_INTERFACES_TD
#define SHALE_RT_INTERFACES_TD

include "mlir/IR/OpBase.td"

def RT_CollectiveInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::shale::rt";
  let description = [{
    A collective of a planned program, started with a token. Its counts and the
    bytes that a rank sends follow from its kind and its two buffers.
  }];
  let methods = [
    InterfaceMethod<"Returns the kind of exchange.", "::shale::CollectiveKind", "getCollectiveKind", (ins)>,
    InterfaceMethod<"Returns the buffer that is sent.", "::mlir::TypedValue<::mlir::MemRefType>", "getSend", (ins)>,
    InterfaceMethod<"Returns the buffer that is received.", "::mlir::TypedValue<::mlir::MemRefType>", "getRecv", (ins)>,
    InterfaceMethod<"Returns the row in the program's table of collectives.", "int64_t", "getSite", (ins)>,
    InterfaceMethod<"Returns the mesh axis along which ranks take part.", "::mlir::StringAttr", "getAxisAttr", (ins)>,
    InterfaceMethod<"Returns the unit or value that is moved.", "::llvm::StringRef", "getName", (ins)>,
    InterfaceMethod<[{
      Returns the elements that the runtime's call counts: those that a rank sends
      of its own, or, of a reduce-scatter, those that it receives.
    }],
    "int64_t", "getCount", (ins), "", [{
      bool scatters = $_op.getCollectiveKind() == ::shale::CollectiveKind::ReduceScatter;
      return (scatters ? $_op.getRecv() : $_op.getSend()).getType().getNumElements();
    }]>,
    InterfaceMethod<[{
      Returns the bytes that one rank sends when `ranks` take part and each piece
      goes straight to its receiver: count elements to each other rank, or, of an
      all-reduce, twice the ceil(count / ranks) elements of a piece.
    }],
    "int64_t", "getSentBytes", (ins "int64_t":$ranks)>
  ];
}

#endif // SHALE_RT_INTERFACES_TD
