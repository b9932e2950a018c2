//===- EpilogueBase.td - What a library does with a matmul ----------------===//
#ifndef SHALE_NN_EPILOGUEBASE_TD
#define SHALE_NN_EPILOGUEBASE_TD

include "mlir/IR/EnumAttr.td"

def NN_Epilogue : I32EnumAttr<"Epilogue", "what becomes of a matmul before it is stored", [
    I32EnumAttrCase<"Bias", 0, "bias">,
    I32EnumAttrCase<"Gelu", 1, "gelu">,
    I32EnumAttrCase<"GeluGrad", 2, "gelu_grad">]> {
  let cppNamespace = "::shale::nn";
}

#endif // SHALE_NN_EPILOGUEBASE_TD
