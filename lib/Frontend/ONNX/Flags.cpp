//===- Flags.cpp - Flags of the import ------------------------------------===//
#include "lib/Frontend/ONNX/Import.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

std::string onnx::parseImportFlag(StringRef flag, StringRef value, ImportOptions &options) {
  if (flag == "gradient" && value == "none") {
    options.deriveGradients = true;
    return "";
  }
  if (flag == "dropout") {
    double &ratio = options.dropout.emplace(0);
    if (value != "off" && (value.getAsDouble(ratio) || !(ratio >= 0 && ratio < 1)))
      return ("--dropout '" + value + "' must be a ratio from 0 to below 1, or off").str();
    return "";
  }
  bool colon = flag == "batch-dim";
  auto [key, rest] = colon ? value.rsplit(':') : value.rsplit('=');
  if (key.empty() || rest.empty())
    return ("--" + flag + " '" + value + "' must be " +
            (colon                ? "INPUT:DIM"
             : flag == "dim"      ? "NAME=SIZE"
             : flag == "gradient" ? "PARAMETER=OUTPUT, or none"
                                  : "INPUT=tokens|tokens+1|ones|arange|file"))
        .str();
  if (flag == "gradient") {
    for (const auto &[parameter, output] : options.gradients)
      if (parameter == key)
        return ("--gradient " + key + " is given twice").str();
    options.gradients.push_back({key.str(), rest.str()});
    return "";
  }
  if (flag == "bind") {
    using nn::Binding;
    std::optional<Binding> binding = rest == "file" ? Binding::Data : nn::findBinding(rest);
    constexpr Binding values[] = {Binding::Data, Binding::Tokens, Binding::NextTokens,
                                  Binding::Ones, Binding::Arange};
    if (rest.empty() || !binding || !llvm::is_contained(values, *binding))
      return ("--bind: '" + rest + "' is not one of tokens, tokens+1, ones, arange, file").str();
    options.bindings[key] = *binding;
    return "";
  }
  int64_t number;
  if (rest.getAsInteger(10, number) || number < (colon ? 0 : 1) || number > INT32_MAX)
    return ("--" + flag + " '" + value + "': '" + rest + "' is not a size").str();
  (colon ? options.batchDims : options.dims)[key] = number;
  return "";
}
