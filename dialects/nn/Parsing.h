//===- Parsing.h - Custom directives of nn's assembly formats -------------===//
#ifndef SHALE_NN_PARSING_H
#define SHALE_NN_PARSING_H

#include "dialects/nn/NN.h"

namespace shale::nn {

/// `role = param`: the keyword of an enum case, without dialect prefix; a moment names its slot:
/// `moment("momentum")`.
inline mlir::ParseResult parseStateRole(mlir::OpAsmParser &parser, RoleAttr &role,
                                        mlir::StringAttr &slot) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  llvm::StringRef keyword;
  if (parser.parseKeyword(&keyword))
    return mlir::failure();
  std::optional<Role> value = symbolizeRole(keyword);
  if (!value)
    return parser.emitError(loc) << "unknown role '" << keyword << "'";
  role = RoleAttr::get(parser.getContext(), *value);
  if (mlir::failed(parser.parseOptionalLParen()))
    return mlir::success();
  return mlir::failure(parser.parseAttribute(slot) || parser.parseRParen());
}

inline void printStateRole(mlir::OpAsmPrinter &printer, mlir::Operation *, RoleAttr role,
                           mlir::StringAttr slot) {
  printer << stringifyRole(role.getValue());
  if (slot)
    printer << "(" << slot << ")";
}

/// Parses the types of an update: the parameter's, then those of gradient and state
/// if they differ (`tensor<8xf32> grad tensor<8xbf16> state tensor<8xbf16>`).
inline mlir::ParseResult parseUpdateTypes(mlir::OpAsmParser &parser, mlir::Type &param,
                                          mlir::Type &grad, mlir::Type &state) {
  if (parser.parseType(param))
    return mlir::failure();
  grad = state = param;
  if (mlir::succeeded(parser.parseOptionalKeyword("grad")) && parser.parseType(grad))
    return mlir::failure();
  if (mlir::succeeded(parser.parseOptionalKeyword("state")) && parser.parseType(state))
    return mlir::failure();
  return mlir::success();
}

inline void printUpdateTypes(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::Type param,
                             mlir::Type grad, mlir::Type state) {
  printer << param;
  if (grad != param)
    printer << " grad " << grad;
  if (state != param)
    printer << " state " << state;
}

} // namespace shale::nn

#endif // SHALE_NN_PARSING_H
